// SPDX-License-Identifier: Apache-2.0
// What programs do every day; run bare and in a sandbox, its output has to be the same.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

func routines() {
	var wait sync.WaitGroup
	results := make(chan int, 10)
	for i := 0; i < 1000; i++ {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			results <- i * i
		}(i)
	}
	go func() {
		wait.Wait()
		close(results)
	}()
	sum := 0
	for x := range results {
		sum += x
	}
	fmt.Println("routines", sum)
}

func server() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(map[string]string{"path": r.URL.Path, "body": string(body)})
	}))
	answer, err := http.Post("http://"+listener.Addr().String()+"/grüße", "text/plain", strings.NewReader("世界"))
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Print("server ", answer.Status, " ", string(body))
	addresses, err := net.LookupHost("localhost")
	fmt.Println("localhost", len(addresses) > 0, err)
	return nil
}

func processes() {
	var exit *exec.ExitError
	out, err := exec.Command("sh", "-c", "echo out; echo err >&2; exit 3").CombinedOutput()
	fmt.Printf("%q %v\n", out, errors.As(err, &exit) && exit.ExitCode() == 3)
	sleeper := exec.Command("sleep", "100")
	sleeper.Start()
	sleeper.Process.Kill()
	fmt.Println(sleeper.Wait())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-signals)
}

func files() {
	folder, _ := os.MkdirTemp("", "everyday-ü")
	defer os.RemoveAll(folder)
	os.MkdirAll(filepath.Join(folder, "a/b"), 0o755)
	os.WriteFile(filepath.Join(folder, "a/世界"), []byte("text"), 0o640)
	names, _ := filepath.Glob(filepath.Join(folder, "a/*"))
	sort.Strings(names)
	for _, name := range names {
		info, _ := os.Stat(name)
		fmt.Println(filepath.Base(name), info.Mode())
	}
	_, err := os.Open("/nope")
	fmt.Println(err)
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Println(strings.Contains(string(status), "Threads:"))
}

func deep(n int) int {
	if n == 0 {
		return 0
	}
	return deep(n-1) + 1
}

func main() {
	routines()
	if err := server(); err != nil {
		fmt.Println(err)
	}
	processes()
	files()
	berlin, err := time.LoadLocation("Europe/Berlin")
	fmt.Println(time.Unix(1700000000, 0).In(berlin), err)
	me, err := user.Current()
	fmt.Println(me != nil, err)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println("in:", lines.Text())
	}
	fmt.Printf("%q %s\n", os.Args[1:], os.Getenv("EVERYDAY"))
	fmt.Println("deep", deep(1000000))
	out := bufio.NewWriter(os.Stdout)
	for i := 0; i < 50000; i++ {
		fmt.Fprintln(out, "line", i)
	}
	out.Write([]byte{0, 255, 254})
	out.Flush()
	var nothing map[string]int
	nothing["x"] = 1
}
