#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""headers.py NVCC ARCH OUT.cu: a kernel for each function that the toolkit's headers offer to device code.

The declarations are read from what nvcc makes of the headers of numbers (fp16, bf16, fp8, fp6, fp4) and of
those that it includes by itself: mathematics, integers, SIMD in a word, atomics, votes, shuffles, fences.
A function with arguments and a result that this program can make is called once, in a kernel of its own,
which reads the arguments from memory and writes the result back. Functions that the host has, too, can be
compared with it: table `cases` of the output (headers_run.h says how).
"""
import re
import subprocess
import sys

HEADERS = ["cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp6.h", "cuda_fp4.h"]
ALIASES = {
    "unsigned": "unsigned int", "long long int": "long long", "unsigned long long int": "unsigned long long",
    "short int": "short", "unsigned short int": "unsigned short", "long int": "long",
    "unsigned long int": "unsigned long", "_Bool": "bool", "half": "__half", "half2": "__half2",
}
TYPES = """float double int:unsigned int:long long:unsigned long long:short:unsigned short:signed char:char
unsigned char:long:unsigned long:bool __half __half2 __nv_bfloat16 __nv_bfloat162 float2 float4 double2
uint2 ushort2 uchar2 __half_raw __half2_raw __nv_bfloat16_raw __nv_bfloat162_raw __nv_fp8_storage_t
__nv_fp8x2_storage_t __nv_fp8x4_storage_t __nv_fp6_storage_t __nv_fp6x2_storage_t __nv_fp6x4_storage_t
__nv_fp4_storage_t __nv_fp4x2_storage_t __nv_fp4x4_storage_t"""
ENUMS = {  # an argument that says how: one of its values
    "__nv_saturation_t": "__NV_SATFINITE", "__nv_fp8_interpretation_t": "__NV_E4M3",
    "__nv_fp6_interpretation_t": "__NV_E2M3", "__nv_fp4_interpretation_t": "__NV_E2M1",
    "cudaRoundMode": "cudaRoundNearest",
}


def known_types():
    names = set()
    for line in TYPES.split("\n"):
        for part in line.split(":"):
            words = part.split()
            # words that belong together are the ones of C's own types
            if words and words[0] in ("unsigned", "signed", "long"):
                names.add(" ".join(words))
            else:
                names.update(words)
    names.update(["long long", "unsigned int", "unsigned char", "signed char", "unsigned long long"])
    return names


def parse_argument(text, types):
    """(type, is a pointer) or None."""
    text = re.sub(r"\b(const|volatile|__restrict__|restrict)\b", " ", text.split("=")[0])
    if "&" in text:
        return None
    words = text.replace("*", " ").split()
    for k in (len(words), len(words) - 1):
        name = " ".join(words[:k])
        name = ALIASES.get(name, name)
        if name in types or name in ENUMS:
            return name, "*" in text
    return None


def declarations(nvcc, arch):
    """{(name, arguments): (result, the host has it)}"""
    source = "".join("#include <%s>\n" % h for h in HEADERS)
    text = subprocess.run([nvcc, "-E", "-x", "cu", "-Wno-deprecated-gpu-targets", "-arch=sm_" + arch,
                           "-D__CUDA_ARCH__=%s0" % arch, "-"], input=source, capture_output=True,
                          text=True, check=True).stdout
    text = re.sub(r"(?m)^#.*$", "", text)
    for word in ("device", "host"):
        text = text.replace("__attribute__((%s))" % word, " @%s " % word)
        text = text.replace("__location__(%s)" % word, " @%s " % word)
    text = re.sub(r"__attribute__\(\((?!deprecated)[^()]*(\([^()]*\))?[^()]*\)\)", "", text)
    types = known_types()
    found = {}
    for m in re.finditer(r"([^;{}]*?)\b([A-Za-z_]\w*)\s*\(([^()]*)\)\s*(?:noexcept|throw\(\))?\s*[;{]", text):
        before, name, arguments = m.groups()
        if "@device" not in before or re.search(r"\boperator\b|\btemplate\b|deprecated", before):
            continue
        if re.match(r"__nv_(?!cvt)|__nvvm_|__[a-z]+Atomic|.*_impl$|(__)?(any|all|ballot)$", name):
            continue  # the compiler's own, behind the names that people use; votes of compute capability 6
        if int(arch) < 90 and name in ("cudaGridDependencySynchronize", "cudaTriggerProgrammaticLaunchCompletion"):
            continue  # declared for all, but griddepcontrol needs sm_90, and ptxas says so
        result = re.sub(r'@\w+|\bstatic\b|\binline\b|__inline__|__forceinline__|\bextern\b|"C"|\bconstexpr\b|'
                        r"__cudart_builtin__|__device_builtin__|\bconst\b|\b__CUDA_\w+__", " ", before)
        result = " ".join(result.split())
        result = ALIASES.get(result, result)
        parts = [] if arguments.strip() in ("", "void") else arguments.split(",")
        parsed = [parse_argument(a, types) for a in parts]
        if None in parsed or (result not in types and result != "void"):
            continue
        key = (name, tuple(parsed))
        old = found.get(key, (result, False))
        found[key] = (result, old[1] or "@host" in before)
    return found


def write(found, out):
    out.write("// Generated by tests/conformance/cub/headers.py from the toolkit's headers. Do not edit.\n")
    out.writelines("#include <%s>\n" % h for h in HEADERS)
    out.write('#include "headers_run.h"\n')
    cases = []
    for n, ((name, arguments), (result, host)) in enumerate(sorted(found.items())):
        values = []
        for i, (kind, pointer) in enumerate(arguments):
            if kind in ENUMS:
                values.append(ENUMS[kind])
            else:
                values.append(("&ARG(%s, %d)" if pointer else "ARG(%s, %d)") % (kind, i))
        call = "%s(%s)" % (name, ", ".join(values))
        body = call if result == "void" else "RESULT(%s) = %s" % (result, call)
        # jn and yn take n steps, for any n of 32 bits; pointers and void leave nothing to compare
        host = host and result != "void" and not any(p for _, p in arguments) and not re.match("[jy]nf?$", name)
        where = "__host__ __device__" if host else "__device__"
        out.write("static %s void f%d(char *in, char *out) { %s; }\n" % (where, n, body))
        out.write('extern "C" __global__ void k%d_%s(char *in, char *out) { f%d(in + BYTES * threadIdx.x, '
                  "out + ROOM * threadIdx.x); }\n" % (n, name, n))
        if host:
            kinds = "".join(KIND(k) for k, _ in arguments)
            cases.append('    {"%s", k%d_%s, f%d, sizeof(%s), "%s", \'%s\'},\n'
                         % (name, n, name, n, result, kinds, KIND(result)))
    out.write("#ifndef HEADERS_DECODE_ONLY\nstatic const struct header_case cases[] = {\n")
    out.writelines(cases)
    out.write("};\nHEADERS_MAIN(cases)\n#endif\n")


def KIND(name):
    """How an argument is made up and a result compared; headers_run.h has the list."""
    return {"float": "f", "double": "d", "__half": "h", "__half2": "H", "__nv_bfloat16": "b",
            "__nv_bfloat162": "B", "float2": "F", "float4": "Q", "double2": "D", "bool": "o"}.get(
                name, "e" if name in ENUMS else "h" if name == "__half_raw" else "H" if name == "__half2_raw"
                else "b" if name == "__nv_bfloat16_raw" else "B" if name == "__nv_bfloat162_raw" else "i")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: headers.py NVCC ARCH OUT.cu")
    with open(sys.argv[3], "w") as f:
        write(declarations(sys.argv[1], sys.argv[2]), f)
