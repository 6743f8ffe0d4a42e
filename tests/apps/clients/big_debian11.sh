# SPDX-License-Identifier: MIT
# Debian 12's CUDA 11 programs: BART, MAGMA, RELION, StarPU, NPP. Sourced by run.sh all.

# bart_gpu SECONDS ARGUMENTS...: Debian's cuFFT 10.9 has PTX for its newest kernels only, used from capability 12.0 on.
bart_gpu()
{
    local limit=$1

    shift
    VGPU_SOFT_CC=12.0 on "$limit" bart "$@"
}

# bart_same NAME LIMIT PROCESSOR GPU: BART's tool compares two of its files (root mean square of the difference).
bart_same()
{
    local error

    error=$(here_ bart nrmse "$3" "$4" 2> /dev/null)
    if awk -v e="$error" -v l="$2" 'BEGIN { exit !(e ~ /^[0-9.]+$/ && e <= l) }'; then
        ok "BART: $1"
    else
        bad "BART: $1" "differs by ${error:-nothing that it says} from the processor's"
    fi
}

# bart_pics NAME ARGUMENTS...: a reconstruction on processor and GPU; the last two arguments are data and sensitivities.
bart_pics()
{
    local name=$1

    shift
    rm -f image_*.cfl image_*.hdr
    here_ bart pics -S "$@" image_processor > "$log" 2>&1
    bart_gpu 200 pics -g -S "$@" image_gpu >> "$log" 2>&1
    bart_same "$name" 0.00001 image_processor image_gpu
}

bart_client()
{
    local command OMP_NUM_THREADS=2

    export OMP_NUM_THREADS
    rm -f ./*.cfl ./*.hdr
    # A phantom's data of four coils, on a grid and along spokes.
    for command in "phantom -x 32 -s 4 -k grid" "phantom -x 32 -S 4 coils" "traj -x 32 -y 24 -r spokes" \
        "phantom -t spokes -s 4 -k radial"; do
        # shellcheck disable=SC2086
        if ! here_ bart $command > "$log" 2>&1; then
            bad "BART: $command" "$(tail -n 1 "$log")"
            return
        fi
    done
    bart_pics "least squares" -l2 -r 0.01 -i 10 grid coils
    bart_pics "wavelets" -R W:3:0:0.01 -i 20 grid coils
    bart_pics "total variation" -R T:3:0:0.01 -i 20 grid coils
    bart_pics "radial data" -t spokes -l1 -r 0.005 -i 20 radial coils
    here_ bart nufft -i -m5 spokes radial nufft_processor > "$log" 2>&1
    bart_gpu 200 nufft -g -i -m5 spokes radial nufft_gpu >> "$log" 2>&1
    bart_same "inverse of the non-uniform Fourier transform" 0.00005 nufft_processor nufft_gpu
    here_ bart nlinv -S -i 5 grid nlinv_processor > "$log" 2>&1
    bart_gpu 200 nlinv -g -S -i 5 grid nlinv_gpu >> "$log" 2>&1
    bart_same "non-linear inversion" 0.00005 nlinv_processor nlinv_gpu
}

# MAGMA's programs check their results against the processor's. Sizes exceed the limit below which MAGMA computes on the
# processor alone.
magma_client()
{
    local path text program arguments

    while read -r program arguments; do
        path=$host/usr/lib/libmagma-test/testing/testing_$program
        # shellcheck disable=SC2086
        text=$(OMP_NUM_THREADS=1 LD_LIBRARY_PATH=$host/usr/lib on 300 "$path" -c $arguments 2>&1)
        if [ $? = 0 ] && grep -q ' ok *$' <<< "$text" && ! grep -q failed <<< "$text"; then
            ok "MAGMA: $program"
        else
            bad "MAGMA: $program" "$(tail -n 3 <<< "$text" | tr '\n' ' ')"
        fi
    done <<'END'
sgemm -l -N 100
dgemm -l -N 100
cgemm -l -N 100
zgemm -l -N 100
dgemv -N 200
dsymv -N 200
dtrsm -l -N 100
sgesv -N 300
dgesv_gpu -N 300
dgetrf -N 300
dgetrf_gpu -N 300
zgetrf_gpu -N 300
dpotrf -N 300
dpotrf_gpu -N 300
dposv_gpu -N 300
dgeqrf -N 300
dgels_gpu -N 300
dsyevd -N 200
dgesvd -l -N 200
dgeev -N 100
sgemm_batched -l -N 40 --batch 8
dgetrf_batched -N 40 --batch 8
dpotrf_batched -N 40 --batch 32
sgeqrf_batched -N 40 --batch 8
END
}

# StarPU's examples that check their results, with the GPU as the only worker.
starpu_client()
{
    local text program arguments wanted

    while IFS=: read -r program arguments wanted; do
        # shellcheck disable=SC2086
        text=$(STARPU_NCPU=0 STARPU_NCUDA=1 STARPU_NOPENCL=0 STARPU_SILENT=1 STARPU_HOME=$out/home \
            on 200 "$libs/starpu/examples/$program" $arguments 2>&1)
        if [ $? = 0 ] && grep -q -e "$wanted" <<< "$text"; then
            ok "StarPU: $program"
        else
            bad "StarPU: $program" "$(tail -n 3 <<< "$text" | tr '\n' ' ')"
        fi
    done <<'END'
vector_scal::Computation is correct
axpy::AFTER y.0. = 7.41
variable::result is correct
block::TEST PASSED
dot_product::Delta -\?[0-9.]*e-0[4-9]
incrementer::array -> 5.000000, 0.000000, 5.000000
cg::DELTA .* - [0-9.]*e-0[4-9]
heat:-check:max error (LUX - B) = -\?[0-9.]*e-0[3-9]
lu_example_double:-size 256 -check:||A-LU|| / .* : [0-9.]*e-1[6-9]
lu_implicit_example_float:-size 256 -check:||A-LU|| / .* : [0-9.]*e-\(0[89]\|10\)
lu_implicit_example_double:-size 256 -check -piv:||PA-LU|| / .* : [0-9.]*e-1[6-9]
matrix_data_interface::^
vector_data_interface::^
csr_data_interface::^
bcsr_data_interface::^
END
}

# relion COMMAND...: runs a single process, with OpenMPI and its plugins from the unpacked packages.
relion()
{
    OPAL_PREFIX=$host/usr OMPI_MCA_btl=self OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 "$@"
}

# Noisy projections of a known volume; two iterations of its refinement from a low resolution. RELION resets the device
# after each iteration. cuFFT 10.9 as for BART.
relion_client()
{
    local text rc refine

    rm -rf relion && mkdir -p relion/processor relion/gpu && cd relion || return
    refine="relion_refine --i noisy.star --ref map.mrc --ini_high 20 --iter 2 --tau2_fudge 2 --particle_diameter 110
        --K 1 --oversampling 1 --healpix_order 0 --offset_range 2 --offset_step 2 --random_seed 1 --pool 3 --j 1 --pad 1
        --zero_mask --norm --scale --flatten_solvent --dont_combine_weights_via_disc"
    # shellcheck disable=SC2086
    text=$(/usr/bin/python3 -B "$here/relion_client.py" map map.mrc angles.star 2>&1 &&
        relion here_ relion_project --i map.mrc --o projections --angpix 4 --ang angles.star 2>&1 &&
        /usr/bin/python3 -B "$here/relion_client.py" noise projections.star noisy 2>&1 &&
        relion here_ timeout 300 $refine --o processor/r 2>&1)
    if [ $? != 0 ]; then
        bad RELION "on the processor: $(tail -n 3 <<< "$text" | tr '\r\n' '  ')"
        return
    fi
    # shellcheck disable=SC2086
    text=$(VGPU_SOFT_CC=12.0 relion on 400 $refine --o gpu/r --gpu 0 2>&1)
    if [ $? != 0 ]; then
        bad RELION "$(grep -a ERROR <<< "$text" | head -n 2 | tr '\r\n' '  ')"
        return
    fi
    text=$(/usr/bin/python3 -B "$here/relion_client.py" compare processor gpu 2>&1)
    rc=$?
    lines RELION "$text" $rc
}

npp_client()
{
    local text rc

    text=$(on 300 /usr/bin/python3 -B "$here/npp_client.py" 2>&1)
    rc=$?
    lines NPP "$text" $rc
}

if have BART bart && starts BART bart version && mkdir -p "$out/work/bart" && pushd "$out/work/bart" > /dev/null; then
    bart_client
    popd > /dev/null || exit
fi
have MAGMA magma && magma_client
if have RELION relion && relion starts RELION relion_refine --version && pushd "$out/work" > /dev/null; then
    relion_client
    popd > /dev/null || exit
fi
have StarPU starpu && starpu_client
have NPP npp && starts NPP /usr/bin/python3 -B -c 'import ctypes; ctypes.CDLL("libnppial.so.11")' && npp_client
