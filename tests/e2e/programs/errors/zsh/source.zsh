setopt errexit
print start
source ./lib/util.zsh
print done
