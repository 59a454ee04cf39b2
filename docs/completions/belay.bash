# bash completion for belay(1)

_belay()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands='doctor help' words=

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
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _belay belay
