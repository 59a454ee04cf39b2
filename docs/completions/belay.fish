# fish completion for belay(1)

complete -c belay -f

complete -c belay -n __fish_use_subcommand -s h -l help -d 'print the help'
complete -c belay -n __fish_use_subcommand -s V -l version -d 'print the version'
complete -c belay -n __fish_use_subcommand -a doctor -d 'say what this machine offers, and what to do about the rest'
complete -c belay -n __fish_use_subcommand -a help -d 'explain a command'
complete -c belay -n __fish_use_subcommand -a hold -d 'run a command, with a deadline, that leaves nothing behind'

complete -c belay -n '__fish_seen_subcommand_from doctor' -l json -d 'the same as --output-format json'
complete -c belay -n '__fish_seen_subcommand_from doctor' -l output-format -x -a 'text json' -d 'how the report is written'
complete -c belay -n '__fish_seen_subcommand_from doctor' -s h -l help -d 'print the help'

complete -c belay -n '__fish_seen_subcommand_from help' -a doctor -d 'say what this machine offers, and what to do about the rest'
complete -c belay -n '__fish_seen_subcommand_from help' -a hold -d 'run a command, with a deadline, that leaves nothing behind'
complete -c belay -n '__fish_seen_subcommand_from help' -s h -l help -d 'print the help'

complete -c belay -n '__fish_seen_subcommand_from hold' -l timeout -x -d 'stop it then: 90, 500ms, 2.5m, 1h'
complete -c belay -n '__fish_seen_subcommand_from hold' -l grace -x -d 'from the signal to SIGKILL (200ms)'
complete -c belay -n '__fish_seen_subcommand_from hold' -l container -x -a 'auto pidns cgroup2 subreaper' -d 'what holds its processes'
complete -c belay -n '__fish_seen_subcommand_from hold' -l sandbox -x -a 'off workspace read-only' -d 'what it can reach'
complete -c belay -n '__fish_seen_subcommand_from hold' -l memory -x -d 'limit of memory: 512M, 2G'
complete -c belay -n '__fish_seen_subcommand_from hold' -l processes -x -d 'limit of processes'
complete -c belay -n '__fish_seen_subcommand_from hold' -l json -d 'one line on standard error at the end'
complete -c belay -n '__fish_seen_subcommand_from hold' -s h -l help -d 'print the help'
complete -c belay -n '__fish_seen_subcommand_from hold' -a '(__fish_complete_subcommand --fcs-skip=2)'
