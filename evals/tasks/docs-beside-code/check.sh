only_changed server/options.py server/check.py docs/usage.md README.md CHANGES.md test_options.py
must "the options are not what they should be" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
grep -q 'localhost:8080/health' server/check.py || fail "server/check.py asks another port"
grep -q 'port 8080' docs/usage.md || fail "docs/usage.md says another port"
grep -q 'localhost:8080/index' docs/usage.md || fail "the example of docs/usage.md has another port"
grep -q '8000 clients' docs/usage.md || fail "docs/usage.md: the number of clients has changed"
grep -q 'localhost:8080>' README.md || fail "README.md has another port"
grep -q '^\* The default port is 8000\. It was 80' CHANGES.md || fail "CHANGES.md: the past has changed"
grep -q 'at once: 8000 by default' CHANGES.md || fail "CHANGES.md: the number of clients has changed"
