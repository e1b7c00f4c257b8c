//go:build unix && !linux

package localstack

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Without Linux's /proc a server finds its data by path, so as root every parent must be enterable by its user.
const (
	inheritData  = false
	inheritedDir = ""
)

// childAttr puts a child into a process group of its own. There is no parent death signal here: a server that was left
// over is stopped by the next start.
func childAttr(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// listProcesses returns the living processes whose command line contains text.
func listProcesses(text string) ([]process, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,ppid=,state=,ucomm=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var list []process
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if !strings.Contains(line, text) || len(f) < 5 || strings.HasPrefix(f[2], "Z") {
			continue
		}
		pid, err1 := strconv.Atoi(f[0])
		parent, err2 := strconv.Atoi(f[1])
		if err1 == nil && err2 == nil {
			list = append(list, process{pid: pid, parent: parent, name: filepath.Base(f[3])})
		}
	}
	return list, nil
}
