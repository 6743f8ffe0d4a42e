# SPDX-License-Identifier: MIT
# Numba and PyCUDA. Sourced by run.sh.

# numba_ready: prepares the toolkit folder that Numba expects, and a libcuda of a driver version that it knows.
numba_ready()
{
    # Leaves out CUDA 13's libcudadevrt.a, which lacks functions that this Numba's grid groups need.
    mkdir -p "$out/cuda/nvvm" "$out/cuda/lib64"
    ln -sf "$CUDA_HOME"/lib64/libcudart.so* "$out/cuda/lib64/"
    ln -sfn "$libs" "$out/cuda/nvvm/lib64"
    ln -sfn "$CUDA_HOME/nvvm/libdevice" "$out/cuda/nvvm/libdevice"
    [ -e "$out/cuda/nvvm/libdevice/libdevice.10.bc" ] && older
}

# numba_run SECONDS ARGUMENTS...: runs python3 with Numba.
numba_run()
{
    local limit=$1

    shift
    on "$limit" env CUDA_HOME="$out/cuda" VGPU_DRIVER_VERSION=12040 bash -c \
        'LD_LIBRARY_PATH=$0:$LD_LIBRARY_PATH exec /usr/bin/python3 -B "$@"' "$out/cuda12" "$@"
}

numba_client()
{
    local text rc

    have Numba numba || return
    numba_ready || { not_run Numba "the toolkit has no libdevice"; return; }
    starts Numba /usr/bin/python3 -B -W ignore -c 'import numba, numpy' || return
    text=$(numba_run 300 -W ignore "$here/numba_client.py" 2>&1)
    rc=$?
    lines Numba "$text" $rc
}
numba_client

pycuda_client()
{
    local text rc

    have PyCUDA pycuda || return
    starts PyCUDA /usr/bin/python3 -B -W ignore -c 'import numpy, pytools' || return
    # PyCUDA has nvcc make machine code for one GPU; this wrapper gives it PTX under the same name.
    sed "s|@NVCC@|$CUDA_HOME/bin/nvcc|" "$here/nvcc.in" > "$out/bin/nvcc"
    chmod +x "$out/bin/nvcc"
    text=$(on 300 /usr/bin/python3 -B -W ignore "$here/pycuda_client.py" 2>&1)
    rc=$?
    lines PyCUDA "$text" $rc
}
if [ -x "$CUDA_HOME/bin/nvcc" ]; then
    pycuda_client
else
    not_run PyCUDA "there is no nvcc in $CUDA_HOME"
fi
