package main

import "log"

func main() {
	log.Fatal("cannot start")
}
