#!/bin/sh
# Stands in for an agent: it is started in a terminal session in the repository's
# folder, resolves the conflict by keeping both lines, and ends with 0, which
# says that its work is done.
set -eu
branch=$1
echo "I am to bring $branch up to main."
git worktree add -q --force ../resolve "$branch"
cd ../resolve
git -c user.name=Agent -c user.email=agent@example.com rebase main || {
  grep -v '^[<=>]\{7\}' list.txt > resolved && mv resolved list.txt
  git add list.txt
  GIT_EDITOR=true git -c user.name=Agent -c user.email=agent@example.com rebase --continue
}
cd ../shop
git worktree remove --force ../resolve
echo "done: $branch stands on main now"
