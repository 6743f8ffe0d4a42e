# SPDX-License-Identifier: MIT
# PyTorch. Sourced by run.sh all.

torch_client()
{
    local text rc place dirs=/usr/lib/x86_64-linux-gnu

    VGPU_CLIENTS_FETCH=${VGPU_CLIENTS_FETCH:-1800} have PyTorch torch || return
    can_inside || { not_run PyTorch "a root of its own needs root or user namespaces"; return; }
    mkdir -p "$out/cudnn" # its library is linked with cuDNN; no convolution below uses it
    ln -sf "$(readlink -f "$CUDA_HOME/lib64")"/libcudnn*.so.9 "$out/cudnn/"
    text=$(on 900 bash -c 'LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$1; shift; exec "$@"' x \
        "$dirs/blas:$dirs/lapack:$out/cudnn" env -u PYTHONPATH bash "$inside" "$out/torch" \
        /usr/bin/python3 -W ignore "$here/torch_client.py" 2>&1)
    rc=$?
    lines PyTorch "$text" $rc
    place=$(bash "$here/../python/environment.sh" make transformers) ||
        { not_run transformers "its packages could not be fetched"; return; }
    # Where the root sees them.
    rm -rf "$out/torch/transformers"
    cp -r "$place/packages" "$out/torch/transformers"
    text=$(on 900 bash -c 'LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$1; shift; exec "$@"' x \
        "$dirs/blas:$dirs/lapack:$out/cudnn" env PYTHONPATH=/transformers bash "$inside" "$out/torch" \
        /usr/bin/python3 -W ignore "$here/transformers_client.py" 2>&1)
    rc=$?
    lines transformers "$text" $rc
}
torch_client
