# SPDX-License-Identifier: MIT
# Completion of vgpu and vgpu-backend for bash. Options are those that begin an entry of the command's --help: a line
# of little indent, up to the two blanks before the description.
_vgpu_options()
{
    "$@" --help 2> /dev/null | sed -nE '/^ {2,6}(-[a-zA-Z], )?--/ { s/^ +//; s/  .*//; p }' | grep -oE -- '--[a-z][a-z-]*' | sort -u
}

# The limits of the backend whose control socket the line has.
_vgpu_limits()
{
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -s | --socket) "$1" ctl --socket "${COMP_WORDS[i + 1]}" get 2> /dev/null | sed -n 's/^\([a-z-]*\) .*/\1/p' ;;
        esac
    done
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
        get | set)
            [ "$first" != ctl ] || mapfile -t COMPREPLY < <(compgen -W "$(_vgpu_limits "$program")" -- "$word")
            ;;
        stop)
            [ "$first" != vm ] ||
                mapfile -t COMPREPLY < <(compgen -W "$("$program" vm list 2> /dev/null | sed '1d; s/ .*//') --all" -- "$word")
            ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$word"; compgen -c -- "${word:-/}") ;;
        esac
        ;;
    esac
}
complete -F _vgpu vgpu

_vgpu_backend()
{
    local word=${COMP_WORDS[COMP_CWORD]}

    COMPREPLY=()
    case $word in
    -*)
        mapfile -t COMPREPLY < <(compgen -W "$(_vgpu_options "${COMP_WORDS[0]}")" -- "$word")
        return
        ;;
    esac
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --gpu) mapfile -t COMPREPLY < <(compgen -W "soft nvidia auto" -- "$word") ;;
    --memory-policy) mapfile -t COMPREPLY < <(compgen -W "promise ceiling" -- "$word") ;;
    --sandbox) mapfile -t COMPREPLY < <(compgen -W "enforce log off" -- "$word") ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W "text json journal" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}
complete -F _vgpu_backend vgpu-backend
