load() {
  local f=$1
  source $f
}
load ./missing.conf || exit 2
