# bash completion for belay(1)

_belay()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands='doctor help hold' words= index

    # Bash breaks words at '=', so that --output-format=json is three of them.
    if [[ $current == "=" ]]; then
        current=
    elif [[ $previous == "=" ]] && ((COMP_CWORD > 2)); then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi

    if ((COMP_CWORD == 1)); then
        words="$commands --help --version"
    else
        case ${COMP_WORDS[1]} in
        doctor)
            case $previous in
            --output-format) words='text json' ;;
            *) words='--json --output-format --help' ;;
            esac
            ;;
        help)
            words='--help'
            ((COMP_CWORD == 2)) && words="$commands --help"
            ;;
        hold)
            # The first word that is neither an option nor its argument begins the held command.
            for ((index = 2; index < COMP_CWORD; index++)); do
                case ${COMP_WORDS[index]} in
                --) ((index++)) && break ;;
                --timeout | --grace | --container | --sandbox | --memory | --processes)
                    [[ ${COMP_WORDS[index + 1]} == "=" ]] && ((index++))
                    ((index++))
                    ;;
                -*) ;;
                *) break ;;
                esac
            done
            if ((index < COMP_CWORD)); then
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
                return
            fi
            case $previous in
            --container) words='auto pidns cgroup2 subreaper' ;;
            --sandbox) words='off workspace read-only' ;;
            --timeout | --grace | --memory | --processes) return ;;
            *)
                if [[ $current != -* || $previous == -- ]]; then
                    mapfile -t COMPREPLY < <(compgen -c -- "$current")
                    return
                fi
                words='--timeout --grace --container --sandbox --memory --processes --json --help'
                ;;
            esac
            ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _belay belay
