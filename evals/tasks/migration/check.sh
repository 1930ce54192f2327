only_changed people.py test_people.py README.md 'migrations/*'
git diff --quiet "$BASE_COMMIT" -- migrations/1_people.sql migrations/2_city.sql || fail "a migration that was released has changed"
must "a database is not what it should be" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
