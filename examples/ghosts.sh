#!/bin/sh
# A command that leaves ghosts: a daemon in a session of its own, a process behind two forks, and a child
# that ignores SIGTERM. What timeout(1) and most agents leave behind when they stop such a command.
setsid sh -c 'while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &
(sh -c 'while :; do sleep 1; done' </dev/null >/dev/null 2>&1 & ) &
sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &
while :; do sleep 1; done
