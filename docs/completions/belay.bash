# bash completion for belay(1)

# What a command of belay itself says of this member, one a line: _belay_ask PROGRAM MEMBER WORD...
_belay_ask()
{
    local program=${1/#\~/$HOME} member=$2
    shift 2
    "$program" "$@" --json 2>/dev/null | grep -oE "\"$member\":\"[^\"]+\"" | cut -d '"' -f 4 | sort -u
}

_belay_files()
{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# Ids of the plans of this repository.
_belay_plans()
{
    local top
    top=$(git rev-parse --show-toplevel 2>/dev/null) || return
    find "$top/.belay/features" "$top/.guardkit/features" -maxdepth 1 -name '*.y*ml' 2>/dev/null |
        sed 's|.*/||; s|\.ya*ml$||' | sort -u
}

_belay()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} words= index verb= store=() socket=()
    local commands='acp bootstrap cancel cell chat debug doctor feature help hold mcp ps route run script session tool tools watch'
    local providers='anthropic openai openai-responses ollama script script: replay'
    local verbs='list show export import fork delete move-aside'
    local shared='--provider --model --session --continue --resume --max-session-turns --max-steps
        --on-exhausted --max-budget-tokens --max-budget-usd --record --cassette --timeout --structured-output --permission-mode --yolo --allow
        --deny --add-dir --mcp-config --trust-mcp --on-cancel --request-id --store --system --append-system-prompt --sandbox --container
        --grace --help'
    # Of those who serve others: without a session of their own.
    local served='--provider --model --max-session-turns --max-steps --on-exhausted --max-budget-tokens --max-budget-usd --cassette
        --timeout --permission-mode --yolo --allow --deny --add-dir --mcp-config --trust-mcp --store --system --append-system-prompt
        --sandbox --container --grace --help'

    # Bash breaks words at '=' and ':', so that --provider=script:FILE is five of them.
    if [[ $current == : && $previous == script ]]; then
        _belay_files ''
        return
    elif [[ $previous == : && ${COMP_WORDS[COMP_CWORD - 2]} == script ]]; then
        _belay_files "$current"
        return
    elif [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]] && ((COMP_CWORD > 2)); then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi

    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands -p --print --help --version" -- "$current")
        return
    fi
    [[ $command == -p || $command == --print ]] && command=run

    for ((index = 2; index < COMP_CWORD; index++)); do
        [[ ${COMP_WORDS[index]} == --store ]] || continue
        [[ ${COMP_WORDS[index + 1]} == = ]] && ((index++))
        store=(--store "${COMP_WORDS[index + 1]/#\~/$HOME}")
    done

    case $command in
    acp | chat | mcp | run | bootstrap | session)
        case $previous in
        --model | --structured-output | --system | --store | --record | --cassette | --mcp-config | --token-file)
            _belay_files "$current"
            return
            ;;
        --add-dir)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            return
            ;;
        --session | --resume | -r) words=$(_belay_ask "$program" session_id session list --all "${store[@]}") ;;
        --provider) words="$providers" ;;
        --on-exhausted) words='stop synthesize' ;;
        --on-cancel) words='discard keep' ;;
        --permission-mode) words='ask auto read-only yolo' ;;
        --sandbox) words='off workspace read-only' ;;
        --container) words='auto pidns cgroup2 subreaper' ;;
        --output-format)
            words='text json'
            [[ $command == run ]] && words='text json stream-json'
            ;;
        --max-* | --timeout | --grace | --allow | --deny | --request-id | --append-system-prompt | --continuation-prompt | --as | --http | \
            --origin)
            return
            ;;
        --address) words='127.0.0.1 ::1' ;;
        *)
            case $command in
            acp) words="$served --minimal" ;;
            mcp) words="$served --on-cancel --http --token-file --origin --address" ;;
            chat) words="$shared -c -r" ;;
            run) words="$shared --max-turns --continuation-prompt --output-format --json -c -r" ;;
            bootstrap) words="$shared --output-format --json -c -r" ;;
            session)
                # The verb is the first word that is neither an option nor its argument.
                for ((index = 2; index < COMP_CWORD; index++)); do
                    case ${COMP_WORDS[index]} in
                    --store | --as | --output-format)
                        [[ ${COMP_WORDS[index + 1]} == = ]] && ((index++))
                        ((index++))
                        ;;
                    -*) ;;
                    *)
                        verb=${COMP_WORDS[index]}
                        break
                        ;;
                    esac
                done
                words='--store --json --output-format --help'
                case $verb in
                '') words="$verbs $words" ;;
                list) words="--all $words" ;;
                import | fork) words="--as $words" ;;
                esac
                if [[ $current != -* ]]; then
                    case $verb in
                    export | import)
                        if [[ $verb == import || $index -lt $((COMP_CWORD - 1)) ]]; then
                            _belay_files "$current"
                            return
                        fi
                        ;;&
                    show | export | fork | delete)
                        words=$(_belay_ask "$program" session_id session list --all "${store[@]}")
                        ;;
                    esac
                fi
                ;;
            esac
            ;;
        esac
        ;;
    cancel | doctor | ps | route | tool | tools | watch)
        words='--json --output-format --help'
        [[ $command == cancel ]] && words="--now --store $words"
        [[ $command == ps ]] && words="--store $words"
        [[ $command == doctor ]] && words="--provider --model $words"
        [[ $command == tool* ]] && words="--mcp-config --trust-mcp $words"
        if [[ $previous == --output-format ]]; then
            words='text json'
            [[ $command == watch ]] && words='text stream-json'
        elif [[ $command == doctor && $previous == --provider ]]; then
            words=$providers
        elif [[ $previous == --mcp-config || $previous == --store || $command == doctor && $previous == --model ]]; then
            _belay_files "$current"
            return
        elif [[ $current != -* && ($command == cancel || $command == watch) ]]; then
            words=$(_belay_ask "$program" '(id|session)' ps)
        elif [[ $current != -* && $command == tool ]]; then
            words=$(_belay_ask "$program" name tools)
        fi
        ;;
    debug)
        words='--help'
        [[ $current != -* ]] && words=$(_belay_ask "$program" '(id|session)' ps)
        ;;
    script)
        words='--port --json --output-format --help'
        case $previous in
        --port) return ;;
        --output-format) words='text json' ;;
        *)
            if [[ " ${COMP_WORDS[*]:2:COMP_CWORD-2} " != *' serve '* ]]; then
                words="serve $words"
            elif [[ $current != -* ]]; then
                _belay_files "$current"
                return
            fi
            ;;
        esac
        ;;
    cell)
        case $previous in
        --session)
            words=$(_belay_ask "$program" session_id session list --all "${store[@]}")
            ;;
        --tools) words='none read-only all' ;;
        --permission-mode) words='ask auto read-only yolo' ;;
        --output-format) words='text json' ;;
        --store | --socket)
            _belay_files "$current"
            return
            ;;
        --timeout | --memory | --max-output | --id | --generation | --yield-time | --terminate-id) return ;;
        *)
            for ((index = 2; index < COMP_CWORD; index++)); do
                case ${COMP_WORDS[index]} in
                --session | --tools | --permission-mode | --output-format | --store | --socket | --timeout | \
                    --memory | --max-output | --id | --generation | --yield-time | --terminate-id)
                    [[ ${COMP_WORDS[index]} == --socket && ${COMP_WORDS[index + 1]} != = ]] &&
                        socket=(--socket "${COMP_WORDS[index + 1]/#\~/$HOME}")
                    [[ ${COMP_WORDS[index]} == --session && ${COMP_WORDS[index + 1]} != = ]] &&
                        socket+=(--session "${COMP_WORDS[index + 1]}")
                    [[ ${COMP_WORDS[index + 1]} == = ]] && ((index++))
                    ((index++))
                    ;;
                -*) ;;
                *) [[ $verb ]] || verb=${COMP_WORDS[index]} ;;
                esac
            done
            words='--session --socket --json --output-format --help'
            case $verb in
            '') words='run serve create observe terminate release list --help' ;;
            run)
                words='--timeout --memory --max-output --tools --permission-mode --session --store --json --output-format --help'
                ;;
            serve) words='--socket --stdio --store --json --output-format --help' ;;
            create) words="--id --timeout --memory --max-output $words" ;;
            observe) words="--generation --yield-time $words" ;;
            terminate) words="--terminate-id $words" ;;
            esac
            if [[ $current != -* ]]; then
                case $verb in
                run | create)
                    _belay_files "$current"
                    return
                    ;;
                observe | terminate | release)
                    words=$(_belay_ask "$program" cell_id cell list "${socket[@]}")
                    ;;
                esac
            fi
            ;;
        esac
        ;;
    feature)
        case $previous in
        --on-failure) words='wave_end cancel_siblings continue' ;;
        --phase) words='player verify coach merge gate' ;;
        --output-format) words='text json stream-json' ;;
        --store | --html)
            _belay_files "$current"
            return
            ;;
        --base)
            words=$(git for-each-ref --format='%(refname:short)' refs/heads refs/tags 2>/dev/null)
            ;;
        --parallel | --turns | --*timeout | --timeout-multiplier | --coach-grace | --drain | --max-* | --task | \
            --more-turns | --turn)
            return
            ;;
        *)
            for ((index = 2; index < COMP_CWORD; index++)); do
                case ${COMP_WORDS[index]} in
                --on-failure | --phase | --output-format | --store | --html | --base | --parallel | --turns | \
                    --*timeout | --timeout-multiplier | --coach-grace | --drain | --max-* | --task | --more-turns | --turn)
                    [[ ${COMP_WORDS[index + 1]} == = ]] && ((index++))
                    ((index++))
                    ;;
                -*) ;;
                *) [[ $verb ]] || verb=${COMP_WORDS[index]} ;;
                esac
            done
            local limits='--parallel --turns --task-timeout --timeout-multiplier --timeout --coach-grace --drain
                --on-failure --max-budget-tokens --max-budget-usd'
            words='--store --json --output-format --help'
            case $verb in
            '') words='validate run status list logs cancel pause resume extend retry clean report --help' ;;
            validate) words="$limits --json --output-format --help" ;;
            run) words="$limits --base --task --require-clean --take-over --fresh $words" ;;
            resume) words="$limits --more-turns --task --require-clean --take-over $words" ;;
            retry) words="$limits --require-clean --take-over $words" ;;
            list) words="--all $words" ;;
            logs) words="--follow --turn --phase $words" ;;
            clean) words="--dry-run $words" ;;
            report) words="--html $words" ;;
            esac
            if [[ $current != -* ]]; then
                case $verb in
                validate | run)
                    words=$(_belay_plans)
                    [[ $current == */* || $current == *.y* ]] && _belay_files "$current" && return
                    ;;
                status | logs | cancel | pause | resume | extend | retry | clean | report)
                    words=$(_belay_ask "$program" feature feature list "${store[@]}")
                    [[ $current == */* ]] && words=$("$program" feature status "${current%%/*}" "${store[@]}" --json 2>/dev/null |
                        grep -oE '"id":"[^"]+"' | cut -d '"' -f 4 | sort -u | sed "s|^|${current%%/*}/|")
                    ;;
                esac
            fi
            ;;
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
                [[ ${COMP_WORDS[index + 1]} == = ]] && ((index++))
                ((index++))
                ;;
            -*) ;;
            *) break ;;
            esac
        done
        if ((index < COMP_CWORD)); then
            _belay_files "$current"
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
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _belay belay
