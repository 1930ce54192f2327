only_changed
last=$(grep -v '^[[:space:]]*$' "$ANSWER" | tail -n 1 | tr -d '`* ')
[ "$last" = deploy/production.conf:6 ] || fail "the last line of the answer is: $last"
said '(^|[^0-9])90([^0-9]|$)' "the answer does not say how long"
