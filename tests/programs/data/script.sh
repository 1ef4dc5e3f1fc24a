# Pipes, subshells, functions, loops, arrays, arithmetic, here documents, traps, jobs, substitutions.
set -u
trap 'echo "leaving with $?"' EXIT
numbers() { for ((i = 1; i <= $1; i++)); do echo "$i"; done; }
numbers 200 | sort -rn | head -3 | tr '\n' ' '
echo
numbers 1000 | awk '{ sum += $1 } END { print sum }' | sed 's/^/sum: /'
declare -A ages=([anna]=31 [bert]=27)
for name in anna bert; do echo "$name is ${ages[$name]}"; done
list=(one two three)
echo "${#list[@]} ${list[*]:1} ${list[0]^^} ${list[1]/w/W}"
cat <<END | grep -c line
first line
second line $((6 * 7))
END
(cd / && pwd)
pwd | sed 's,.*/,,'
value=$(echo nested $(echo deeper "$(echo deepest)"))
echo "$value"
[[ $value =~ (d[a-z]+est) ]] && echo "matched ${BASH_REMATCH[1]}"
diff <(numbers 5) <(numbers 6)
echo "status $?"
for job in 1 2 3; do (sleep 0.0$job; exit "$job") & done
wait
echo "waited"
(kill -TERM $BASHPID) 2>/dev/null
echo "status $?"
{ echo to stdout; echo to stderr >&2; } 2>&1 | sort
numbers 50000 > written.txt
wc -l < written.txt
while read -r line; do case $line in *77*) echo "$line" ;; esac; done < written.txt | head -5
printf '%s %05.2f %x\n' text 3.14159 255
until false; do break; done
echo $((2 ** 40 % 1000)) $((0x1f | 8)) $((5 > 3 ? 1 : 0))
false | true
echo "${PIPESTATUS[@]}"
exit 9
