only_changed catalog.py
[ "$(python3 lookup.py A-4711)" = 12.99 ] || fail "lookup.py shows another price"
git diff --unified=0 "$BASE_COMMIT" -- catalog.py | grep '^[-+] ' | grep -v '"A-4711"' >"$SCRATCH/others" || true
[ ! -s "$SCRATCH/others" ] || fail "other articles have changed: $(head -n 1 "$SCRATCH/others")"
[ "$(wc -l <catalog.py)" = 8005 ] || fail "catalog.py has more or fewer lines than before"
[ "$(python3 lookup.py A-47110)" = 4.75 ] || fail "another article has changed"
