package localstack

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// home is the directory of one server: state.json, server.log and the server's own data/.
type home struct {
	dir string
	id  identity
	tag string // see the package comment; known once data/ exists
}

// openHome makes the directory if it is new, and decides whom the server runs as.
func openHome(dir string) (*home, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	h := &home{dir: dir}
	if h.id, err = chooseIdentity(h.data()); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *home) data() string { return filepath.Join(h.dir, "data") }

// makeData makes an empty directory of this name that belongs to the server.
func (h *home) makeData(name string) error {
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make server directory: %w", err)
	}
	return h.id.own(path)
}

// setTag computes the tag of the data directory. Fixed width, so that no tag is the beginning of another one. A copy of
// the directory has another tag, a renamed one keeps it.
func (h *home) setTag() error {
	info, err := os.Stat(h.data())
	if err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	st := info.Sys().(*syscall.Stat_t)
	h.tag = fmt.Sprintf("commma-%08x-%016x", uint64(st.Dev), uint64(st.Ino))
	return nil
}

// command prepares a program of the server that works on the directory called name, which it finds at the returned path.
// The caller closes the files of cmd.ExtraFiles once the child was started.
func (h *home) command(sig syscall.Signal, name, bin string) (*exec.Cmd, string, error) {
	path := filepath.Join(h.dir, name)
	cmd := exec.Command(bin) // without a context: it lives until it is stopped
	cmd.Dir = "/"
	cmd.SysProcAttr = childAttr(sig)
	if h.id.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: h.id.uid, Gid: h.id.gid}
		if inheritData {
			dir, err := os.Open(path)
			if err != nil {
				return nil, "", fmt.Errorf("open data directory: %w", err)
			}
			cmd.ExtraFiles = []*os.File{dir}
			path = inheritedDir
		}
	}
	// A fixed environment: what the user's shell exports for other servers (PGDATA, PGOPTIONS, locales) must not matter.
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + path}
	return cmd, path, nil
}

// closeAll closes our copies of what a child inherits.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // read-only descriptors
	}
}

// identity is whom the servers run as.
type identity struct {
	uid, gid uint32
	switched bool // we are root and the servers are not
}

// chooseIdentity picks the user of a server: ourselves, but never root. Postgres refuses to run as root, and a Redis
// that lets its clients write files should not be either. Existing data keeps its owner.
func chooseIdentity(data string) (identity, error) {
	if os.Geteuid() != 0 {
		return identity{}, nil
	}
	if info, err := os.Stat(data); err == nil {
		st := info.Sys().(*syscall.Stat_t)
		if st.Uid != 0 {
			return identity{uid: st.Uid, gid: st.Gid, switched: true}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return identity{uid: uint32(uid), gid: uint32(gid), switched: true}, nil
		}
	}
	return identity{}, errors.New("find a user to run the servers as: Postgres does not run as root, and there is neither a user postgres nor a user nobody")
}

// own gives a file to the server's user.
func (id identity) own(path string) error {
	if !id.switched {
		return nil
	}
	if err := os.Chown(path, int(id.uid), int(id.gid)); err != nil {
		return fmt.Errorf("give file to the server's user: %w", err)
	}
	return nil
}

// state is what a server's URL is made of, kept so that the URL stays the same from start to start.
type state struct {
	Port     int    `json:"port"`
	Password string `json:"password"`
}

func (h *home) statePath() string { return filepath.Join(h.dir, "state.json") }

// loadState reads the state, or makes one if the directory is fresh.
func (h *home) loadState(fresh bool) (state, error) {
	var s state
	text, err := os.ReadFile(h.statePath())
	if errors.Is(err, fs.ErrNotExist) && fresh {
		s.Password = rand.Text()
		return s, h.saveState(s)
	}
	if err != nil {
		return s, fmt.Errorf("read server state: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read server state %s: %w", h.statePath(), err)
	}
	return s, nil
}

// saveState writes the state before the server that it describes is started: a URL that was given away stays true.
func (h *home) saveState(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write server state: %w", err)
	}
	return writeSecret(h.statePath(), append(text, '\n'))
}

// writeSecret replaces a file whole, readable by its owner alone.
func writeSecret(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// maxLog is the size in bytes above which a log is set aside at the next start.
const maxLog = 16 << 20

func (h *home) logPath() string { return filepath.Join(h.dir, "server.log") }

// openLog opens the log for appending and returns where this run's part begins.
func (h *home) openLog() (*os.File, int64, error) {
	if info, err := os.Stat(h.logPath()); err == nil && info.Size() > maxLog {
		if err := os.Rename(h.logPath(), h.logPath()+".1"); err != nil {
			return nil, 0, fmt.Errorf("set log aside: %w", err)
		}
	}
	f, err := os.OpenFile(h.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open log: %w", err)
	}
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, fmt.Errorf("open log: %w", errors.Join(err, f.Close()))
	}
	return f, at, nil
}

// tailLines is how much of a log an error quotes.
const tailLines = 12

// logTail returns the last lines written since the position from.
func (h *home) logTail(from int64) string {
	f, err := os.Open(h.logPath())
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		from = max(from, end-16<<10)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, 16<<10))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// Ports are taken from below the range that Linux (32768) and others (49152) give to outgoing connections: a port that
// is remembered, or free for the moment because its server was killed, is then not lost to somebody's connection. The
// same goes for the port 10000 above, by which the nodes of a Redis Cluster talk to each other.
const firstPort, lastPort = 10000, 19999

// portFree says whether a server could listen on the port now.
func portFree(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
