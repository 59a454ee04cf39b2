# fish completion for belay(1)

# Words of the command line behind the program, without options and their arguments.
function __belay_words
    set -l words (commandline -opc)
    set -l skip
    for word in $words[2..]
        if set -q skip[1]
            set -e skip
            continue
        end
        switch $word
            case -p --print
                echo run
            case -r --provider --model --record --cassette --port --session --resume '--max-*' --on-exhausted --timeout --structured-output --permission-mode --allow --deny --on-cancel --request-id --store --system --append-system-prompt --add-dir --mcp-config --token-file --origin --address --sandbox --container --output-format --continuation-prompt --as --grace --memory --processes --tools --id --generation --yield-time --terminate-id --socket --parallel --turns --turn --task --task-timeout --timeout-multiplier --coach-grace --drain --on-failure --base --more-turns --phase --html
                string match -q '*=*' -- $word; or set skip yes
            case '-*'
            case '*'
                echo $word
        end
    end
end

# True when the command is one of these.
function __belay_is
    set -l words (__belay_words)
    set -q words[1]; and contains -- $words[1] $argv
end

# True when the verb of session is one of these; with none: when there is no verb yet.
function __belay_verb
    set -l words (__belay_words)
    test "$words[1]" = session; or return 1
    if set -q argv[1]
        set -q words[2]; and contains -- $words[2] $argv
    else
        not set -q words[2]
    end
end

# The same for cell.
function __belay_cell
    set -l words (__belay_words)
    test "$words[1]" = cell; or return 1
    if set -q argv[1]
        set -q words[2]; and contains -- $words[2] $argv
    else
        not set -q words[2]
    end
end

# And for feature.
function __belay_feature
    set -l words (__belay_words)
    test "$words[1]" = feature; or return 1
    if set -q argv[1]
        set -q words[2]; and contains -- $words[2] $argv
    else
        not set -q words[2]
    end
end

# Ids of the plans of this repository.
function __belay_plans
    set -l top (git rev-parse --show-toplevel 2>/dev/null); or return
    for file in $top/.belay/features/*.{yaml,yml} $top/.guardkit/features/*.{yaml,yml}
        string replace -r '.*/(.*)\.ya?ml$' '$1' -- $file
    end
end

function __belay_no_command
    set -l words (__belay_words)
    not set -q words[1]
end

# What a command of belay itself says of this member: __belay_ask MEMBER WORD...
function __belay_ask
    set -l words (commandline -opc)
    set -l index (contains -i -- --store $words)
    set -l store
    contains -- "$argv[2]" session feature; and test -n "$index"; and set -q words[(math $index + 1)]; and set store --store $words[(math $index + 1)]
    $words[1] $argv[2..] $store --json 2>/dev/null | string match -ar "\"$argv[1]\":\"([^\"]+)\"" -g | sort -u
end

function __belay_providers
    set -l path (commandline -ct | string replace -r '^(--provider=)?(script:?)?' '')
    printf '%s\n' anthropic openai openai-responses ollama replay script
    for file in $path*
        test -d $file; and echo script:$file/; or echo script:$file
    end
end

complete -c belay -f

complete -c belay -n __belay_no_command -s h -l help -d 'print the help'
complete -c belay -n __belay_no_command -s V -l version -d 'print the version'
complete -c belay -n __belay_no_command -s p -l print -d 'the same as run'
for help in __belay_no_command '__belay_is help'
    complete -c belay -n $help -a acp -d 'be the agent of an editor, by the Agent Client Protocol'
    complete -c belay -n $help -a bootstrap -d 'report what a session starts with, and run its first turn'
    complete -c belay -n $help -a cancel -d 'stop what runs, by its id, and print the receipt'
    complete -c belay -n $help -a cell -d 'run JavaScript in a process of its own; serve such cells to others'
    complete -c belay -n $help -a chat -d 'talk with a model in the terminal'
    complete -c belay -n $help -a doctor -d 'say what this machine offers, and what to do about the rest'
    complete -c belay -n $help -a feature -d 'take a plan of tasks to merged work, and stop any part of it'
    complete -c belay -n $help -a hold -d 'run a command, with a deadline, that leaves nothing behind'
    complete -c belay -n $help -a mcp -d 'offer runs and cells to other agents, as an MCP server'
    complete -c belay -n $help -a ps -d 'show what runs now'
    complete -c belay -n $help -a route -d 'say which commands and tools a prompt matches'
    complete -c belay -n $help -a run -d 'take a prompt to its end, without a terminal'
    complete -c belay -n $help -a script -d 'serve a scripted model over HTTP, in every provider\'s format'
    complete -c belay -n $help -a session -d 'list, show, export, import, fork and delete sessions'
    complete -c belay -n $help -a tool -d 'show one tool, with its schema'
    complete -c belay -n $help -a tools -d 'list the tools that a model is offered'
    complete -c belay -n $help -a debug -d 'print what the process of a run is doing'
    complete -c belay -n $help -a watch -d 'show what happens in what runs, until it has ended'
end
complete -c belay -n __belay_no_command -a help -d 'explain a command'

# All but acp, chat, debug, help, mcp, and hold and watch, which have a --json of their own.
set -l answers '__belay_is bootstrap cancel cell doctor feature ps route run script session tool tools'
complete -c belay -n $answers -l json -d 'the same as --output-format json'
complete -c belay -n '__belay_is bootstrap cancel cell doctor ps route script session tool tools' -l output-format -x -a 'text json' -d 'how the answer is written'
complete -c belay -n '__belay_feature validate status list cancel pause extend clean report' -l output-format -x -a 'text json' -d 'how the answer is written'
complete -c belay -n '__belay_is run; or __belay_feature run resume retry logs' -l output-format -x -a 'text json stream-json' -d 'how the answer is written'
complete -c belay -n 'not __belay_no_command' -s h -l help -d 'print the help'

set -l runs '__belay_is chat run bootstrap'
set -l works '__belay_is acp chat mcp run bootstrap'
complete -c belay -n $works -l provider -x -a '(__belay_providers)' -d 'who answers'
complete -c belay -n $works -l model -r -F -d 'of that provider'
complete -c belay -n $runs -l session -x -a '(__belay_ask session_id session list --all)' -d 'the session of that id, made if there is none'
complete -c belay -n $runs -s c -l continue -d 'the newest session of this directory'
complete -c belay -n $runs -s r -l resume -x -a '(__belay_ask session_id session list --all)' -d 'that session, which must exist'
complete -c belay -n $works -l max-session-turns -x -d 'refuse to go on at so many turns of the session'
complete -c belay -n $works -l max-steps -x -d 'tool calls of a turn'
complete -c belay -n $works -l on-exhausted -x -a 'stop synthesize' -d 'what to do at --max-steps'
complete -c belay -n $works -l max-budget-tokens -x -d 'of the whole session'
complete -c belay -n $works -l max-budget-usd -x -d 'what it may cost: 0.50'
complete -c belay -n $runs -l record -r -F -d 'write down what goes over the wire, without keys'
complete -c belay -n $works -l cassette -r -F -d 'with --provider replay, answer from such a file'
complete -c belay -n $works -l timeout -x -d 'one deadline over everything: 90, 500ms, 2.5m, 1h'
complete -c belay -n $runs -l structured-output -r -F -d 'the answer must be JSON that fits this schema'
complete -c belay -n $works -l permission-mode -x -a 'ask auto read-only yolo' -d 'which tools may run'
complete -c belay -n $works -l yolo -d 'every tool may run'
complete -c belay -n $works -l allow -x -d 'let a tool run: bash, bash(git *)'
complete -c belay -n $works -l deny -x -d 'never let it run: bash(rm *)'
complete -c belay -n $works -l add-dir -x -a '(__fish_complete_directories)' -d 'a further folder that tools may write to'
complete -c belay -n '__belay_is acp chat mcp run bootstrap tool tools' -l mcp-config -r -F -d 'MCP servers whose tools are offered as well'
complete -c belay -n '__belay_is acp chat mcp run bootstrap tool tools' -l trust-mcp -d 'start those of .mcp.json though nobody has agreed to them'
complete -c belay -n '__belay_is chat mcp run bootstrap' -l on-cancel -x -a 'discard keep' -d 'of a turn that is stopped'
complete -c belay -n $runs -l request-id -x -d 'names this run, so that it can be asked for again'
complete -c belay -n $works -l store -r -F -d 'where sessions are kept'
complete -c belay -n $works -l system -r -F -d 'instructions before all others'
complete -c belay -n $works -l append-system-prompt -x -d 'instructions after all others'
complete -c belay -n $works -l sandbox -x -a 'off workspace read-only' -d 'what tools can reach'
complete -c belay -n $works -l container -x -a 'auto pidns cgroup2 subreaper' -d 'what holds the processes of tools'
complete -c belay -n $works -l grace -x -d 'of a stopped tool, to clean up before it is killed (200ms)'
complete -c belay -n '__belay_is acp' -l minimal -d 'only the kinds of updates of the first published schema'
complete -c belay -n '__belay_is mcp' -l http -d 'serve HTTP on loopback, at that port'
complete -c belay -n '__belay_is mcp' -l token-file -r -F -d 'holds the token that each request must bring'
complete -c belay -n '__belay_is mcp' -l origin -x -d 'a further host that may ask'
complete -c belay -n '__belay_is mcp' -l address -x -a '127.0.0.1 ::1' -d 'another loopback address'
complete -c belay -n '__belay_is run' -l max-turns -x -d 'turns of this loop'
complete -c belay -n '__belay_is run' -l continuation-prompt -x -d 'the prompt of each further turn'

complete -c belay -n __belay_verb -a list -d 'sessions of this directory, newest first'
complete -c belay -n __belay_verb -a show -d 'one with its turns and attempts'
complete -c belay -n __belay_verb -a export -d 'all of one, as JSON Lines'
complete -c belay -n __belay_verb -a import -d 'what export wrote'
complete -c belay -n __belay_verb -a fork -d 'a new session with the same turns'
complete -c belay -n __belay_verb -a delete -d 'for ever'
complete -c belay -n __belay_verb -a move-aside -d 'rename a store that cannot be used'
complete -c belay -n '__belay_is session' -l store -r -F -d 'where sessions are kept'
complete -c belay -n '__belay_verb list' -l all -d 'of every directory, and those of sub-agents'
complete -c belay -n '__belay_verb import fork' -l as -x -d 'the id of the new session'
complete -c belay -n '__belay_verb show export fork; and test (count (__belay_words)) -eq 2' -a '(__belay_ask session_id session list --all)'
complete -c belay -n '__belay_verb delete' -a '(__belay_ask session_id session list --all)'
complete -c belay -n '__belay_verb export; and test (count (__belay_words)) -eq 3' -F
complete -c belay -n '__belay_verb import' -F

complete -c belay -n __belay_cell -a run -d 'one cell, here'
complete -c belay -n __belay_cell -a serve -d 'be the host of cells for other programs'
complete -c belay -n __belay_cell -a create -d 'start a cell in that host'
complete -c belay -n __belay_cell -a observe -d 'wait for output, or for the end'
complete -c belay -n __belay_cell -a terminate -d 'end a cell'
complete -c belay -n __belay_cell -a release -d 'let the host forget a cell that has ended'
complete -c belay -n __belay_cell -a list -d 'the cells of a session'
complete -c belay -n '__belay_cell run create' -F
complete -c belay -n '__belay_cell run create' -l timeout -x -d 'end it then: 90, 500ms, 2.5m, 1h'
complete -c belay -n '__belay_cell run create' -l memory -x -d 'it may grow by so much: 64M'
complete -c belay -n '__belay_cell run create' -l max-output -x -d 'of output: 4M'
complete -c belay -n '__belay_cell run' -l tools -x -a 'none read-only all' -d 'what its code may call'
complete -c belay -n '__belay_cell run' -l permission-mode -x -a 'ask auto read-only yolo' -d 'which of those calls may run'
complete -c belay -n '__belay_cell run serve' -l store -r -F -d 'where sessions are kept'
complete -c belay -n '__belay_cell serve' -l stdio -d 'frames on standard input and output'
complete -c belay -n '__belay_cell serve create observe terminate release list' -l socket -r -F -d 'of the host'
complete -c belay -n '__belay_cell run create observe terminate release list' -l session -x -a '(__belay_ask session_id session list --all)' -d 'whose values and cells are meant'
complete -c belay -n '__belay_cell create' -l id -x -d 'of the cell'
complete -c belay -n '__belay_cell observe' -l generation -x -d 'which observation, from 1 on'
complete -c belay -n '__belay_cell observe' -l yield-time -x -d 'wait so long for output: 10s'
complete -c belay -n '__belay_cell terminate' -l terminate-id -x -d 'names this wish'
complete -c belay -n '__belay_cell observe terminate release; and test (count (__belay_words)) -eq 2' -a '(__belay_ask cell_id cell list)'

complete -c belay -n __belay_feature -a validate -d 'check the plan, and print what will be enforced'
complete -c belay -n __belay_feature -a run -d 'run it, or go on'
complete -c belay -n __belay_feature -a status -d 'what stands now'
complete -c belay -n __belay_feature -a list -d 'the features of this repository'
complete -c belay -n __belay_feature -a logs -d 'what has happened'
complete -c belay -n __belay_feature -a cancel -d 'stop it now, and print the receipt'
complete -c belay -n __belay_feature -a pause -d 'begin nothing new'
complete -c belay -n __belay_feature -a resume -d 'go on'
complete -c belay -n __belay_feature -a extend -d 'move the deadline of a task that runs'
complete -c belay -n __belay_feature -a retry -d 'give a task a fresh attempt'
complete -c belay -n __belay_feature -a clean -d 'remove what is merged and holds nothing else'
complete -c belay -n __belay_feature -a report -d 'all of it in one page'
complete -c belay -n '__belay_feature validate run; and test (count (__belay_words)) -eq 2' -F -a '(__belay_plans)'
complete -c belay -n '__belay_feature status logs cancel pause resume extend retry clean report; and test (count (__belay_words)) -eq 2' -a '(__belay_ask feature feature list)'
set -l plays '__belay_feature validate run resume retry'
complete -c belay -n $plays -l parallel -x -d 'tasks at once, 1 to 64'
complete -c belay -n $plays -l turns -x -d 'of a task, 1 to 50'
complete -c belay -n $plays -l task-timeout -x -d 'of each task: 90, 500ms, 2.5m, 1h'
complete -c belay -n $plays -l timeout-multiplier -x -d 'times that, 0.1 to 100'
complete -c belay -n $plays -l timeout -x -d 'of the whole feature'
complete -c belay -n $plays -l coach-grace -x -d 'for the Coach, past a deadline: 120s'
complete -c belay -n $plays -l drain -x -d 'after the first signal: 10s'
complete -c belay -n $plays -l on-failure -x -a 'wave_end cancel_siblings continue' -d 'what a task that fails means to the others'
complete -c belay -n $plays -l max-budget-tokens -x -d 'of the whole feature'
complete -c belay -n $plays -l max-budget-usd -x -d 'the same: 0.50'
complete -c belay -n '__belay_feature run resume retry' -l require-clean -d 'refuse a checkout with changes'
complete -c belay -n '__belay_feature run resume retry' -l take-over -d 'end the belay that has it now'
complete -c belay -n '__belay_feature run resume' -l task -x -d 'that one alone'
complete -c belay -n '__belay_feature run' -l base -x -d 'what the first wave begins with'
complete -c belay -n '__belay_feature run' -l fresh -d 'from the beginning'
complete -c belay -n '__belay_feature resume' -l more-turns -x -d 'so many more turns, 1 to 50'
complete -c belay -n '__belay_feature list' -l all -d 'of all repositories'
complete -c belay -n '__belay_feature logs' -s f -l follow -d 'go on until the feature ends'
complete -c belay -n '__belay_feature logs' -l turn -x -d 'of that turn alone'
complete -c belay -n '__belay_feature logs' -l phase -x -a 'player verify coach merge gate' -d 'of that phase alone'
complete -c belay -n '__belay_feature clean' -l dry-run -d 'only say what would go'
complete -c belay -n '__belay_feature report' -l html -r -F -d 'one HTML file'
complete -c belay -n '__belay_feature run status list logs cancel pause resume extend retry clean report' -l store -r -F -d 'where features are kept'

complete -c belay -n '__belay_is cancel debug watch' -a '(__belay_ask id ps; __belay_ask session ps)'
complete -c belay -n '__belay_is cancel' -l now -d 'at once, without the time that commands have to end by themselves'
complete -c belay -n '__belay_is cancel' -l store -r -F -d 'where what has ended is looked up'
complete -c belay -n '__belay_is ps' -l store -r -F -d 'where runs of a killed process are looked up'
complete -c belay -n '__belay_is watch' -l json -d 'the same as --output-format stream-json'
complete -c belay -n '__belay_is watch' -l output-format -x -a 'text stream-json' -d 'how events are written'
complete -c belay -n '__belay_is tool' -a '(__belay_ask name tools)'

complete -c belay -n '__belay_is doctor' -l provider -x -a '(__belay_providers)' -d 'call that provider'
complete -c belay -n '__belay_is doctor' -l model -r -F -d 'and that model'

complete -c belay -n '__belay_is script; and test (count (__belay_words)) -eq 1' -a serve -d 'on 127.0.0.1, until it is stopped'
complete -c belay -n '__belay_is script; and test (count (__belay_words)) -eq 2' -F
complete -c belay -n '__belay_is script' -l port -x -d '0 takes any that is free'

complete -c belay -n '__belay_is hold' -l timeout -x -d 'stop it then: 90, 500ms, 2.5m, 1h'
complete -c belay -n '__belay_is hold' -l grace -x -d 'from the signal to SIGKILL (200ms)'
complete -c belay -n '__belay_is hold' -l container -x -a 'auto pidns cgroup2 subreaper' -d 'what holds its processes'
complete -c belay -n '__belay_is hold' -l sandbox -x -a 'off workspace read-only' -d 'what it can reach'
complete -c belay -n '__belay_is hold' -l memory -x -d 'limit of memory: 512M, 2G'
complete -c belay -n '__belay_is hold' -l processes -x -d 'limit of processes'
complete -c belay -n '__belay_is hold' -l json -d 'one line on standard error at the end'
complete -c belay -n '__belay_is hold' -a '(__fish_complete_subcommand --fcs-skip=2)'
