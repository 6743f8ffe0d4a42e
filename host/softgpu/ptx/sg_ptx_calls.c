/* SPDX-License-Identifier: MIT */
/*
 * Real calls. Called functions are usually inlined (ptx/select/sg_select_control.c). A function that is
 * already being inlined (recursion), is nested too deep, or is reached through a pointer from a
 * function that was itself reached through a pointer, is decoded once, after the kernel's own code,
 * and called. So is every function of a kernel that is too large with all of them inlined (kernels
 * of GCC's OpenMP reach each region of a program):
 *
 *   frame     parameters, results and local variables of an activation are in local memory after
 *             those of its caller; the special register SG_SR_FRAME has the offset of each lane. The
 *             address of a local variable therefore stays valid during further calls.
 *   stack     the call saves the registers that are live across it, the frame and its own index
 *             for each lane; the return restores them. The stack is outside local memory: kernels
 *             cannot change it.
 *   limits    both are SG_STACK_FACTOR times CU_LIMIT_STACK_SIZE; overflow is
 *             CUDA_ERROR_HARDWARE_STACK_ERROR, "exceeded the stack size limit" (cuda.h).
 */
#include "ptx/select/select.h"

#define MAX_PROCS 4096

/* Places parameters and results at the start of the frame. Returns the end. */
static uint32_t place_parameters(const struct sg_pdecl *p, uint32_t n, uint32_t at, uint32_t *offset)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t align = p[i].align < 4 ? 4 : p[i].align > 16 ? 16 : p[i].align;
        uint32_t begin;

        if (!sg_size_place(&at, align, p[i].size, SG_MAX_LOCAL, &begin))
            return SG_MAX_LOCAL + 1;
        if (offset)
            offset[i] = begin;
    }
    return (at + 15) & ~15u;
}

bool sg_call_by_register(const struct sg_func *f)
{
    for (uint32_t i = 0; i < f->nparams; i++)
        if (f->params[i].is_reg)
            return true;
    for (uint32_t i = 0; i < f->nrets; i++)
        if (f->rets[i].is_reg)
            return true;
    return false;
}

static int find_proc(struct sg_dec *d, uint32_t func, uint32_t *index)
{
    for (*index = 0; *index < d->nprocs; ++*index)
        if (d->procs[*index].func == func)
            return 0;
    if (d->nprocs == MAX_PROCS)
        return sg_dec_refuse(d, "too many functions");
    if (!sg_grow(&d->procs, &d->cap_procs, d->nprocs, sizeof(*d->procs)))
        return sg_dec_nomem(d);
    d->procs[d->nprocs++] = (struct sg_proc){func, sg_new_label(d), 0, false};
    return d->err;
}

static int add_site(struct sg_dec *d, uint32_t insn, uint32_t callee, uint32_t room)
{
    if (d->err)
        return d->err;
    if (!sg_grow(&d->sites, &d->cap_sites, d->nsites, sizeof(*d->sites)))
        return sg_dec_nomem(d);
    d->sites[d->nsites++] = (struct sg_site){insn, d->proc, callee, room};
    return 0;
}

/* A scalar at an offset in the frame that the callee will have: behind the caller's. */
static int ldst_callee(struct sg_dec *d, bool store, enum sg_type t, uint32_t reg, uint32_t offset)
{
    uint32_t save = d->proc, i;

    d->proc = 1; /* relative to the frame, which in the kernel begins behind its own variables */
    i = sg_ldst_local(d, store, t, reg, offset);
    d->proc = save;
    return add_site(d, i, UINT32_MAX, 0);
}

/* Copies a local variable into the callee's frame, or back. Each begins a word of its own. */
static int copy_words(struct sg_dec *d, const struct sg_lvar *v, uint32_t size, uint32_t offset, bool in)
{
    for (uint32_t k = 0; k < size && !d->err; k += 4) {
        uint32_t t = sg_temp(d, SG_TY_B32);

        if (in) {
            sg_ldst_local(d, false, SG_TY_B32, t, v->offset + k);
            ldst_callee(d, true, SG_TY_B32, t, offset + k);
        } else {
            ldst_callee(d, false, SG_TY_B32, t, offset + k);
            sg_ldst_local(d, true, SG_TY_B32, t, v->offset + k);
        }
    }
    return d->err;
}

static int pass_parameter(struct sg_dec *d, const struct sg_pdecl *p, const struct sg_opnd *o,
                          uint32_t offset, bool in)
{
    bool local = o->kind == SG_O_SYM && o->symkind == SG_K_LOCAL && !d->lvars[o->v].shared;
    uint32_t t;

    if (local && d->lvars[o->v].size < p->size)
        return sg_dec_syntax(d, "call: argument '%.*s' is smaller than parameter '%.*s'", (int)o->name_len,
                             o->name, (int)p->len, p->name);
    if (local)
        return copy_words(d, &d->lvars[o->v], p->size, offset, in);
    if (in)
        return ldst_callee(d, true, p->type, sg_call_arg(d, o, p->type), offset);
    if (o->kind != SG_O_REG)
        return sg_dec_syntax(d, "call: bad argument for '%.*s'", (int)p->len, p->name);
    t = sg_temp(d, p->type);
    ldst_callee(d, false, p->type, t, offset);
    return sg_call_ret(d, o, p->type, t);
}

uint32_t sg_stack_save(struct sg_dec *d)
{
    uint32_t t = sg_temp(d, SG_TY_U64);

    sg_sreg(d, SG_SR_FRAME);
    sg_sreg(d, SG_SR_TOP);
    sg_emit(d, SG_OP_stacksave, t, NONE, NONE, NONE);
    return t;
}

void sg_stack_restore(struct sg_dec *d, uint32_t saved)
{
    sg_emit(d, SG_OP_stackrestore, NONE, saved, NONE, NONE);
}

/* alloca.type d, size{, alignment}; stacksave.type d; stackrestore.type a (PTX ISA 9.7.12) */
int sg_emit_alloca(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool wide = t == SG_TY_U64, restore = d->oc.base[5] == 'r';
    uint32_t a = NONE, r, i, align = 8;

    if (t != SG_TY_U32 && t != SG_TY_U64)
        return sg_dec_syntax(d, "%s: .u32 or .u64 expected", d->oc.full);
    if (d->nops != (d->oc.base[0] != 'a' ? 1u : d->nops == 3 ? 3u : 2u))
        return sg_dec_syntax(d, "%s: wrong number of operands", d->oc.full);
    if (d->oc.base[0] == 'a' || restore) {
        a = sg_src(d, restore ? 0 : 1, t);
        if (!wide) {
            r = sg_temp(d, SG_TY_U64);
            sg_emit(d, SG_OP_cvt_u64_u32, r, a, NONE, NONE);
            a = r;
        }
    }
    if (restore) {
        sg_sreg(d, SG_SR_FRAME);
        sg_sreg(d, SG_SR_TOP);
        sg_stack_restore(d, a);
        return d->err;
    }
    if (d->oc.base[0] != 'a') {
        r = sg_stack_save(d);
    } else {
        if (d->nops == 3 && (d->ops[2].kind != SG_O_IMM || !d->ops[2].imm || d->ops[2].imm > 128 ||
                             (d->ops[2].imm & (d->ops[2].imm - 1))))
            return sg_dec_syntax(d, "alloca: an alignment of 1, 2, 4 ... 128 expected");
        if (d->nops == 3)
            align = d->ops[2].imm < 8 ? 8 : (uint32_t)d->ops[2].imm;
        sg_sreg(d, SG_SR_FRAME);
        sg_sreg(d, SG_SR_TOP);
        r = sg_temp(d, SG_TY_U64);
        i = sg_emit(d, SG_OP_alloca, r, a, NONE, NONE);
        if (d->err)
            return d->err;
        d->insns[i].aux = align;
        if (d->proc)
            add_site(d, i, UINT32_MAX, 0); /* imm: the frame's size */
    }
    sg_emit(d, wide ? SG_OP_mov_b64 : SG_OP_cvt_u32_u64, sg_dst(d, 0, t), r, NONE, NONE);
    return d->err;
}

int sg_call_real(struct sg_dec *d, uint32_t func, const struct sg_call *c)
{
    const struct sg_func *f = &d->m->funcs[func];
    uint32_t offset[2 * SG_MAX_ARGS], end, index, room, i;

    if (c->nargs != f->nparams || c->nrets != f->nrets || f->nparams > SG_MAX_ARGS || f->nrets > SG_MAX_ARGS)
        return sg_dec_syntax(d, "call: %s takes %u arguments and returns %u values", f->name, f->nparams,
                             f->nrets);
    for (i = 0; i < f->nparams + f->nrets; i++) {
        const struct sg_pdecl *p = i < f->nparams ? &f->params[i] : &f->rets[i - f->nparams];

        if (p->is_reg && (p->type == SG_TY_PRED || p->vec > 1))
            return sg_dec_refuse(d, "predicates and vectors of a function that is called");
    }
    if (d->in_span)
        return sg_dec_refuse(d, "a call under a predicate");
    end = place_parameters(f->params, f->nparams, 0, offset);
    end = place_parameters(f->rets, f->nrets, end, offset + SG_MAX_ARGS);
    if (end > SG_MAX_LOCAL)
        return sg_dec_refuse(d, "too much local memory");
    if (find_proc(d, func, &index))
        return d->err;
    sg_sreg(d, SG_SR_FRAME);
    room = sg_emit(d, SG_OP_call_room, NONE, NONE, NONE, NONE);
    for (i = 0; i < f->nparams && !d->err; i++)
        pass_parameter(d, &f->params[i], &c->args[i], offset[i], true);
    i = sg_emit(d, SG_OP_call, NONE, NONE, NONE, NONE);
    if (add_site(d, i, index, room))
        return d->err;
    d->insns[i].imm = d->procs[index].label;
    d->metas[i].ctl = SG_CT_CALL;
    for (i = 0; i < f->nrets && !d->err; i++)
        pass_parameter(d, &f->rets[i], &c->rets[i], offset[SG_MAX_ARGS + i], false);
    return d->err;
}

/* The parameters and results of a function as local variables of its frame; reg: their registers, if any. */
static int declare_locals(struct sg_dec *d, const struct sg_pdecl *p, uint32_t n, const uint32_t *offset,
                          uint32_t *reg)
{
    for (uint32_t i = 0; i < n; i++) {
        reg[i] = NONE;
        if (p[i].is_reg) {
            reg[i] = sg_new_vreg(d, p[i].type, false);
            if (d->err || sg_scope_define(d, p[i].name, p[i].len, SG_K_REG, reg[i]))
                return d->err;
            continue;
        }
        if (!sg_grow(&d->lvars, &d->cap_lvars, d->nlvars, sizeof(*d->lvars)))
            return sg_dec_nomem(d);
        d->lvars[d->nlvars] = (struct sg_lvar){offset[i], p[i].size, false, true, p[i].element};
        if (sg_scope_define(d, p[i].name, p[i].len, SG_K_LOCAL, d->nlvars++))
            return d->err;
    }
    return 0;
}

/* Reads the registers of parameters from the frame, or writes the registers of results to it. */
static void transfer_registers(struct sg_dec *d, const struct sg_pdecl *p, uint32_t n, const uint32_t *offset,
                               const uint32_t *reg, bool store)
{
    for (uint32_t i = 0; i < n && !d->err; i++)
        if (reg[i] != NONE)
            sg_ldst_local(d, store, p[i].type, reg[i], offset[i]);
}

static int decode_function(struct sg_dec *d, uint32_t index)
{
    const struct sg_func *f = &d->m->funcs[d->procs[index].func];
    uint32_t offset[2 * SG_MAX_ARGS], reg[2 * SG_MAX_ARGS], end = NONE, i;

    d->proc = index + 1;
    d->line = f->body_line;
    while (d->nscopes)
        sg_scope_close(d);
    d->func_base = 0;
    sg_scope_open(d);
    d->depth = 0;
    d->call_stack[d->depth++] = d->procs[index].func;
    if (sg_call_by_register(f))
        end = sg_new_label(d); /* results are written to the frame there */
    d->ret_label = end == NONE ? SG_RET_CALL : end + 1;
    d->local_bytes = place_parameters(f->params, f->nparams, 0, offset);
    d->local_bytes = place_parameters(f->rets, f->nrets, d->local_bytes, offset + SG_MAX_ARGS);
    if (declare_locals(d, f->params, f->nparams, offset, reg) ||
        declare_locals(d, f->rets, f->nrets, offset + SG_MAX_ARGS, reg + SG_MAX_ARGS))
        return d->err;
    sg_place_label(d, d->procs[index].label);
    transfer_registers(d, f->params, f->nparams, offset, reg, false);
    if (d->err || d->read_body(d, f->body, f->body_end - 1, f->body_line))
        return d->err;
    if (end != NONE)
        sg_place_label(d, end);
    transfer_registers(d, f->rets, f->nrets, offset + SG_MAX_ARGS, reg + SG_MAX_ARGS, true);
    i = sg_emit(d, SG_OP_return, NONE, NONE, NONE, NONE);
    if (d->err)
        return d->err;
    d->metas[i].ctl = SG_CT_EXIT;
    d->procs[index].frame_bytes = (d->local_bytes + 15) & ~15u;
    d->procs[index].done = true;
    return 0;
}

int sg_call_bodies(struct sg_dec *d)
{
    uint32_t kernel_bytes = d->local_bytes;

    for (uint32_t i = 0; i < d->nprocs; i++) /* bodies may add further functions */
        if (decode_function(d, i))
            return d->err;
    d->proc = 0;
    d->local_bytes = kernel_bytes;
    for (uint32_t i = 0; i < d->nsites; i++) {
        const struct sg_site *s = &d->sites[i];

        if (s->callee == UINT32_MAX && s->caller)
            d->insns[s->insn].imm += d->procs[s->caller - 1].frame_bytes;
    }
    return 0;
}
