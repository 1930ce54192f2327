only_changed stats.py test_stats.py
must "median does not compute what it should" python3 "$CHECK/hidden.py"
must "the tests of stats.py fail" python3 -m unittest test_stats
cp -R . "$SCRATCH/copy"
(
  cd "$SCRATCH/copy"
  git show "$BASE_COMMIT:stats.py" >stats.py
  must_not "median has no test" python3 -m unittest test_stats
)
said 'test_export|export\.py|semicolon' "the answer does not name the test that failed before"
