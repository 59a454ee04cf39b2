# fish completion for belay(1)

complete -c belay -f

complete -c belay -n __fish_use_subcommand -s h -l help -d 'print the help'
complete -c belay -n __fish_use_subcommand -s V -l version -d 'print the version'
complete -c belay -n __fish_use_subcommand -a doctor -d 'say what this machine offers, and what to do about the rest'
complete -c belay -n __fish_use_subcommand -a help -d 'explain a command'

complete -c belay -n '__fish_seen_subcommand_from doctor' -l json -d 'the same as --output-format json'
complete -c belay -n '__fish_seen_subcommand_from doctor' -l output-format -x -a 'text json' -d 'how the report is written'
complete -c belay -n '__fish_seen_subcommand_from doctor' -s h -l help -d 'print the help'

complete -c belay -n '__fish_seen_subcommand_from help' -a doctor -d 'say what this machine offers, and what to do about the rest'
complete -c belay -n '__fish_seen_subcommand_from help' -s h -l help -d 'print the help'
