#!/bin/sh
# Makes a repository to play with in workspace/shop: main, and three branches
# that differ from it in more and more awkward ways.
set -eu
mkdir -p workspace
cd workspace
[ ! -e shop ] || { echo "workspace/shop is there already" >&2; exit 1; }
git init -q -b main shop
cd shop
git config user.name Ann
git config user.email ann@example.com
commit() { git add -A && git commit -q -m "$1"; }

printf 'apples\nbread\n' > list.txt
commit "Begin the list"
git branch diverged
git branch conflicting
printf 'apples\nwhite bread\n' > list.txt
commit "Say that the bread is white"
git branch clean

git switch -q clean
echo "shop: open" > sign.txt
commit "Put up a sign"

git switch -q diverged
echo "closed on Sundays" > hours.txt
commit "Say when we are open"

git switch -q conflicting
printf 'apples\nrye bread\n' > list.txt
commit "Say that the bread is rye"

git switch -q main
echo "branches: clean diverged conflicting"
