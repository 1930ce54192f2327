# Written here, because editors and git would change the line ends of a file.
printf '[display]\r\nretries = 3\r\nscale = 1.5\r\n\r\n[network]\r\nhost = example.org\r\nretries = 3\r\ntimeout = 20\r\nproxy =' >settings.ini
git -c core.autocrlf=false add --all
git commit --quiet --message "Settings"
