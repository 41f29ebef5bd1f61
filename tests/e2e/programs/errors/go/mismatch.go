package main

func two() (int, int) { return 1, 2 }

func main() {
	a := two()
	_ = a
}
