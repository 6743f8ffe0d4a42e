# SPDX-License-Identifier: MIT
# Completion of vgpu and vgpu-backend for bash. Options are those that --help of the command names.
_vgpu_options()
{
    "$@" --help 2> /dev/null | grep -oE -- '(^|[ ,[(])--[a-z][a-z-]*' | tr -d ' ,[(' | sort -u
}

# The commands, or with a first word those that go with it.
_vgpu_commands()
{
    "$1" --help 2> /dev/null | grep -oE "(^  |, )vgpu ${2:+$2 }[a-z][a-z-]*" | sed 's/.* //' | sort -u
}

_vgpu()
{
    local word=${COMP_WORDS[COMP_CWORD]} first=${COMP_WORDS[1]:-} second=${COMP_WORDS[2]:-} program=${COMP_WORDS[0]} from=2 i

    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_vgpu_commands "$program") --help --version" -- "$word")
        return
    fi
    case $first in
    vm | cdi)
        if [ "$COMP_CWORD" = 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_vgpu_commands "$program" "$first")" -- "$word")
            return
        fi
        ;;
    *) second= ;;
    esac
    # Behind the program everything is the program's.
    [ -z "$second" ] || from=3
    case $first$second in
    run | trace | doctor | vmrun)
        for ((i = from; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in -*) continue ;; esac
            case ${COMP_WORDS[i - 1]} in --*) continue ;; esac
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
        done
        ;;
    esac
    case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(_vgpu_options "$program" "$first" ${second:+"$second"})" -- "$word") ;;
    *)
        case ${COMP_WORDS[COMP_CWORD - 1]} in
        --gpu) mapfile -t COMPREPLY < <(compgen -W "soft nvidia auto" -- "$word") ;;
        --accel) mapfile -t COMPREPLY < <(compgen -W "auto kvm tcg" -- "$word") ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$word"; compgen -c -- "${word:-/}") ;;
        esac
        ;;
    esac
}
complete -F _vgpu vgpu
