echo "${NAME:?must be given}"
