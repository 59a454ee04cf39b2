#!/bin/sh
# A command that leaves ghosts: a process in its own session, a daemon behind two forks, and a child that
# ignores SIGTERM. timeout(1) and most agents leave these running when they stop such a command.
exec </dev/null >/dev/null
setsid sleep 301 &
setsid sh -c 'sleep 302 &'
(
    trap '' TERM HUP INT
    exec sleep 303
) &
sleep 304
