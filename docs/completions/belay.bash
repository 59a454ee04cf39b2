# bash completion for belay(1). The program itself knows its commands, options and values.

_belay()
{
    local words=() word line prefix typed=${COMP_WORDS[COMP_CWORD]}
    local program=${COMP_WORDS[0]/#\~/$HOME}

    # Bash breaks words at '=' and ':', so that --provider=script:FILE is five of them.
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if ((${#words[@]} > 1)) && [[ $word == [=:]* || ${words[-1]} == *[=:] ]]; then
            words[-1]+=$word
        else
            words+=("${word/#\~/$HOME}")
        fi
    done
    [[ $typed == [=:]* ]] && typed=
    local current=${words[-1]} position=$((${#words[@]} - 1))
    # It replaces only what stands behind the last of them.
    local kept=${current%"${typed/#\~/$HOME}"}

    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files*)
            prefix=${line#:files }
            compopt -o filenames 2>/dev/null
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${current#"$prefix"}")
            ;;
        :folders*)
            prefix=${line#:folders }
            compopt -o filenames 2>/dev/null
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "${current#"$prefix"}")
            ;;
        :command*)
            if ((${line#:command } == position)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$current")
            else
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            fi
            ;;
        *)
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$kept"}")
            ;;
        esac
    done < <("$program" __complete "$position" "${words[@]}" 2>/dev/null)
}

complete -F _belay belay
