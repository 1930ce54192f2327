only_changed hello.py texts/de.json CHANGES README.md
[ "$(python3 hello.py bye Ada)" = "Goodbye, Ada!" ] || fail "bye does not say goodbye"
german=$(LANGUAGE=de python3 hello.py bye Ada)
case $german in
  *Goodbye*) fail "the text is not translated" ;;
  *Ada*) ;;
  *) fail "the German text has no name: $german" ;;
esac
[ "$(LANGUAGE=de python3 hello.py welcome Ada)" = "Willkommen, Ada!" ] || fail "welcome is broken"
must "AGENTS.md is not followed" python3 "$CHECK/hidden.py"
