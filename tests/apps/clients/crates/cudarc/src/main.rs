// SPDX-License-Identifier: MIT
//! cudarc on the GPU that libcuda.so.1 shows: each result is compared with the processor's. Prints `ok - NAME` or
//! `FAIL: NAME: WHY` for each test.
use cudarc::cublas::{sys::cublasOperation_t, CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{result, sys, CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{compile_ptx, Ptx};
use std::error::Error;
use std::sync::Arc;

type Done = Result<(), Box<dyn Error>>;

const SOURCE: &str = r#"
extern "C" __global__ void axpy(float *y, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}
extern "C" __global__ void total(unsigned *out, const unsigned *in, int n)
{
    extern __shared__ unsigned part[];
    unsigned sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int k = blockDim.x / 2; k; k /= 2) {
        if (threadIdx.x < k)
            part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x)
        atomicAdd(out, part[0]);
}
"#;

fn same(what: &str, right: bool) -> Done {
    if right { Ok(()) } else { Err(format!("{what} differs from the processor's").into()) }
}

fn copies(ctx: &Arc<CudaContext>) -> Done {
    let stream = ctx.new_stream()?;
    let host: Vec<u32> = (0..100_000).map(|i| i * 7).collect();
    let first = stream.clone_htod(&host)?;
    let mut second = stream.alloc_zeros::<u32>(host.len())?;
    stream.memcpy_dtod(&first, &mut second)?;
    same("a copy", stream.clone_dtoh(&second)? == host)?;
    stream.memset_zeros(&mut second)?;
    same("a memset", stream.clone_dtoh(&second)?.iter().all(|v| *v == 0))
}

fn kernels(ctx: &Arc<CudaContext>) -> Done {
    let stream = ctx.default_stream();
    let module = ctx.load_module(compile_ptx(SOURCE)?)?;
    let axpy = module.load_function("axpy")?;
    let x: Vec<f32> = (0..10_000).map(|i| i as f32 * 0.5).collect();
    let d = stream.clone_htod(&x)?;
    let mut y = stream.clone_htod(&vec![1.0f32; x.len()])?;
    let (a, n) = (3.0f32, x.len() as i32);
    let mut launch = stream.launch_builder(&axpy);
    launch.arg(&mut y).arg(&d).arg(&a).arg(&n);
    unsafe { launch.launch(LaunchConfig::for_num_elems(n as u32)) }?;
    same("axpy", stream.clone_dtoh(&y)?.iter().zip(&x).all(|(g, v)| *g == 1.0 + 3.0 * v))?;

    let total = module.load_function("total")?;
    let host: Vec<u32> = (0..123_456).collect();
    let d = stream.clone_htod(&host)?;
    let mut out = stream.alloc_zeros::<u32>(1)?;
    let n = host.len() as i32;
    let mut launch = stream.launch_builder(&total);
    launch.arg(&mut out).arg(&d).arg(&n);
    unsafe { launch.launch(LaunchConfig { grid_dim: (8, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 512 }) }?;
    same("total", stream.clone_dtoh(&out)?[0] == host.iter().fold(0u32, |s, v| s.wrapping_add(*v)))
}

fn streams(ctx: &Arc<CudaContext>) -> Done {
    let (first, second) = (ctx.new_stream()?, ctx.new_stream()?);
    let start = first.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    let d = first.clone_htod(&[1u8, 2, 3])?;
    let end = first.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    second.wait(&end)?;
    same("what another stream reads", second.clone_dtoh(&d)? == [1, 2, 3])?;
    same("a time", start.elapsed_ms(&end)? >= 0.0)
}

fn blas(ctx: &Arc<CudaContext>) -> Done {
    let stream = ctx.default_stream();
    let blas = CudaBlas::new(stream.clone())?;
    let (m, n, k) = (37usize, 29usize, 53usize);
    let a: Vec<f32> = (0..m * k).map(|i| ((i * 31) % 17) as f32 - 8.0).collect();
    let b: Vec<f32> = (0..k * n).map(|i| ((i * 13) % 11) as f32 - 5.0).collect();
    let (da, db) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let mut dc = stream.alloc_zeros::<f32>(m * n)?;
    let config = GemmConfig {
        transa: cublasOperation_t::CUBLAS_OP_N,
        transb: cublasOperation_t::CUBLAS_OP_N,
        m: m as i32,
        n: n as i32,
        k: k as i32,
        alpha: 1.0,
        lda: m as i32,
        ldb: k as i32,
        beta: 0.0,
        ldc: m as i32,
    };
    unsafe { blas.gemm(config, &da, &db, &mut dc) }?;
    let c = stream.clone_dtoh(&dc)?;
    for j in 0..n {
        for i in 0..m {
            let want: f32 = (0..k).map(|l| a[l * m + i] * b[j * k + l]).sum();
            same("a product", (c[j * m + i] - want).abs() <= 1e-3)?;
        }
    }
    Ok(())
}

fn errors(ctx: &Arc<CudaContext>) -> Done {
    let bad = ctx.load_module(Ptx::from_src(".version 8.0\n.target sm_75\n.address_size 64\nthis is no PTX"));
    same("the refusal of a text", matches!(bad, Err(ref e) if e.0 == sys::CUresult::CUDA_ERROR_INVALID_PTX))?;
    let module = ctx.load_module(compile_ptx(SOURCE)?)?;
    let none = module.load_function("none");
    same("the refusal of a name", matches!(none, Err(ref e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_FOUND))?;
    same("the text of an error", none.err().unwrap().error_name()?.to_str()? == "CUDA_ERROR_NOT_FOUND")?;
    let (free, all) = result::mem_get_info()?;
    same("the memory", free > 0 && free <= all)
}

fn main() {
    let ctx = match CudaContext::new(0) {
        Ok(ctx) => ctx,
        Err(e) => {
            println!("FAIL: context: {e:?}");
            std::process::exit(1);
        }
    };
    let tests: [(&str, fn(&Arc<CudaContext>) -> Done); 5] =
        [("copies", copies), ("kernels of NVRTC", kernels), ("streams and events", streams), ("cuBLAS", blas), ("errors", errors)];
    let mut failed = 0;

    println!("# {}", ctx.name().unwrap_or_default());
    for (name, test) in tests {
        match test(&ctx) {
            Ok(()) => println!("ok - {name}"),
            Err(e) => {
                println!("FAIL: {name}: {e}");
                failed += 1;
            }
        }
    }
    std::process::exit((failed > 0) as i32);
}
