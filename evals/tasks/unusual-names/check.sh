find . -type f -not -path './.git/*' -exec cksum {} + | LC_ALL=C sort >"$SCRATCH/is"
mkdir "$SCRATCH/wanted"
cd "$SCRATCH/wanted"
sh -eu "$CHECK/make.sh"
for file in 'a b.md' 'été 2025/-draft.md' 'été 2025/naïve.md' "it's done.md" 'deep/er/  two.md'; do
  mkdir -p "$(dirname "archive/$file")"
  mv -- "notes/$file" "archive/$file"
done
find . -type f -exec cksum {} + | LC_ALL=C sort >"$SCRATCH/wanted.list"
diff "$SCRATCH/wanted.list" "$SCRATCH/is" || fail "not exactly the files that are done were moved"
