# fish completion for belay(1). The program itself knows its commands, options and values.

function __belay_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] __complete (count $words) $words "$current" 2>/dev/null)
        switch $line
            case ':files*'
                set -l prefix (string replace -r '^:files ?' '' -- $line)
                for file in (__fish_complete_path (string sub -s (math 1 + (string length -- "$prefix")) -- "$current"))
                    echo $prefix$file
                end
            case ':folders*'
                set -l prefix (string replace -r '^:folders ?' '' -- $line)
                for folder in (__fish_complete_directories (string sub -s (math 1 + (string length -- "$prefix")) -- "$current"))
                    echo $prefix$folder
                end
            case ':command*'
                __fish_complete_subcommand --fcs-skip=(string replace ':command ' '' -- $line)
            case '*'
                echo $line
        end
    end
end

complete -c belay -f -a '(__belay_complete)'
