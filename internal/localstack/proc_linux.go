package localstack

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// inheritData says that a server running as somebody else is given its data directory as a descriptor. It then needs
// no permission on any parent: /proc/self/fd/N is resolved by jumping to the directory itself.
const inheritData = true

// inheritedDir is the path by which a child sees the first of its extra files.
const inheritedDir = "/proc/self/fd/3"

// childAttr puts a child into a process group of its own, so that Ctrl-C in a terminal reaches only the program, which
// then stops the servers in order; and has the kernel send sig when the thread that started it ends.
func childAttr(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: sig}
}

// listProcesses returns the living processes whose command line contains text.
func listProcesses(text string) ([]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var list []process
	for _, dir := range dirs {
		p, ok, err := readProcess(dir, text)
		// A process that ends while it is looked at gives one of these.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return nil, err
		}
		if ok {
			list = append(list, p)
		}
	}
	return list, nil
}

// readProcess reads one /proc/PID. A zombie has an empty command line and so never counts as anything.
func readProcess(dir, text string) (process, bool, error) {
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !bytes.Contains(command, []byte(text)) {
		return process{}, false, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, false, err
	}
	var p process
	// "pid (name) state ppid ...": the name may itself hold blanks and brackets.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return process{}, false, fmt.Errorf("read %s/stat: no name in it", dir)
	}
	p.name = string(stat[open+1 : end])
	if p.pid, err = strconv.Atoi(filepath.Base(dir)); err != nil {
		return process{}, false, fmt.Errorf("read process id: %w", err)
	}
	var state string
	if _, err := fmt.Sscan(string(stat[end+1:]), &state, &p.parent); err != nil {
		return process{}, false, fmt.Errorf("read %s/stat: %w", dir, err)
	}
	return p, true, nil
}
