# SPDX-License-Identifier: MIT
# mumax3 and nvbandwidth. Sourced by run.sh all.

# A single spin in a field, other interactions disabled: after a quarter period of precession
# (2 pi / (gamma B), gamma 1.7595e11 rad/Ts) it points along y.
mumax_client()
{
    local text

    have mumax3 mumax || return
    cat > "$out/work/spin.mx3" <<'END'
SetGridsize(4, 4, 1)
SetCellsize(4e-9, 4e-9, 4e-9)
EnableDemag = false
Msat = 800e3
Aex = 0
alpha = 0
m = uniform(1, 0, 0)
B_ext = vector(0, 0, 0.1)
run(8.9276e-11)
expectv("m", m.average(), vector(0, 1, 0), 1e-2)
SetGridsize(32, 8, 1)
SetCellsize(500e-9/128, 125e-9/32, 3e-9)
EnableDemag = true
Aex = 13e-12
alpha = 0.5
B_ext = vector(0, 0, 0)
m = uniform(1, .1, 0)
relax()
expect("length", m.average().len(), 1, 1e-2)
END
    text=$(on 400 "$host/usr/bin/mumax3" -http= "$out/work/spin.mx3" 2>&1)
    if [ $? = 0 ]; then
        ok "mumax3: precession, relaxation with FFT"
    else
        bad mumax3 "$(tail -n 4 <<< "$text" | tr '\n' ' ')"
    fi
}
mumax_client

bandwidth_client()
{
    local text

    have nvbandwidth nvband || return
    can_inside || { not_run nvbandwidth "a root of its own needs root or user namespaces"; return; }
    text=$(on 400 bash "$inside" "$out/nvband" /usr/bin/nvbandwidth -b 8 -i 1 2>&1)
    if [ $? = 0 ] && [ "$(grep -c '^SUM' <<< "$text")" -ge 10 ] && ! grep -q ERROR <<< "$text"; then
        ok "nvbandwidth: $(grep -c '^SUM' <<< "$text") of its measurements, each with its data compared"
    else
        bad nvbandwidth "$(tail -n 4 <<< "$text" | tr '\n' ' ')"
    fi
}
bandwidth_client
