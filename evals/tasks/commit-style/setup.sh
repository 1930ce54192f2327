# A history with a style, and work of somebody else that is not committed.
commit() {
  git commit --quiet --message "$1" --message "$2" --message "Tested-by: Robin Doe <robin@example.org>"
}
git add guide.md
commit "guide: begin with the kettle" "Nobody found the beginning."
git add tea.sh
commit "tea: print how long it takes" "The package is thrown away first."
echo 'Green tea is not meant.' >>guide.md
git add guide.md
commit "guide: name what is not meant" "A reader boiled green tea."
sed -i.old 's/4 minutes/four minutes/' tea.sh
rm tea.sh.old
git add tea.sh
commit "tea: write numbers as words" "The guide does so, too."
echo 'echo "white: 2 minutes"' >>tea.sh
echo 'coffee' >plan.txt
