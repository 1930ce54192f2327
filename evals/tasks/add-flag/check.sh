only_changed words.py test_words.py README.md
words() { printf '%s' "$1" | python3 words.py ${2-}; }
[ "$(words 'The the THE end' --ignore-case)" = "$(printf '1 end\n3 the')" ] || fail "--ignore-case does not count as it should"
[ "$(words 'Über über a' --ignore-case)" = "$(printf '1 a\n2 über')" ] || fail "--ignore-case is for ASCII only"
[ "$(words 'A a a' '--ignore-case --least 3')" = '3 a' ] || fail "--least counts before the words are one"
[ "$(words 'A a')" = "$(printf '1 A\n1 a')" ] || fail "without the flag, words count otherwise than before"
must "the tests of the project fail" python3 -m unittest
cp -R . "$SCRATCH/copy"
cd "$SCRATCH/copy"
git show "$BASE_COMMIT:words.py" >words.py
must_not "no test fails without the flag" python3 -m unittest
