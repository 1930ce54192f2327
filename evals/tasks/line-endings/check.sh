only_changed settings.ini
printf '[display]\r\nretries = 3\r\nscale = 1.5\r\n\r\n[network]\r\nhost = example.org\r\nretries = 5\r\ntimeout = 20\r\nproxy =' >"$SCRATCH/wanted"
cmp -s "$SCRATCH/wanted" settings.ini || fail "settings.ini differs in more than the value, or not at all"
