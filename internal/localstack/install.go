package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Ensure makes sure that both servers are installed. As root on Debian or Ubuntu it installs what is missing, telling
// notify, in lines for the user, what it does; elsewhere it fails with a *MissingError.
func Ensure(ctx context.Context, notify func(line string)) error {
	if err := Find(ctx); err == nil || !canInstall() {
		return err
	}
	return Install(ctx, notify)
}

// canInstall says whether Install works here: only packages whose side effects are known are installed unasked.
func canInstall() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Geteuid() == 0 && osRelease().like("debian")
}

// Install installs the distribution's packages of the servers that are missing, on Debian and Ubuntu, as root. It leaves
// no trace beyond the packages: neither are the distribution's own services started, now or when the machine boots, nor
// is its default Postgres cluster made. Processes that install at the same time wait for each other.
func Install(ctx context.Context, notify func(line string)) error {
	return installer{root: "/", command: runCommand}.run(ctx, notify)
}

// installer holds what tests replace.
type installer struct {
	root    string // of the file system
	command func(ctx context.Context, name string, args ...string) error
}

// run installs what is missing once no other process is installing, and checks the result: an old distribution may have
// only versions that are too old.
func (i installer) run(ctx context.Context, notify func(line string)) (err error) {
	lock, err := waitLock(ctx, filepath.Join(i.root, "run/commma-install.lock"))
	if err != nil {
		return fmt.Errorf("install servers: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	// Another process may have installed them while this one waited.
	_, pgErr := findPostgres(ctx, 0)
	_, redisErr := findRedis(ctx)
	if err := i.install(ctx, pgErr != nil, redisErr != nil, notify); err != nil {
		return fmt.Errorf("install servers: %w", err)
	}
	return Find(ctx)
}

// install installs the packages of the servers that are missing.
func (i installer) install(ctx context.Context, postgres, redis bool, notify func(line string)) (err error) {
	var packages []string
	if postgres {
		packages = append(packages, "postgresql")
	}
	if redis {
		packages = append(packages, "redis-server")
	}
	if len(packages) == 0 {
		return nil
	}
	notify("installing " + strings.Join(packages, " and ") + " with apt-get; their services are not started")
	undoPolicy, err := i.forbidServices()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undoPolicy()) }()
	if postgres {
		// The setting is read by the server package's installation, and lies in a file that this package brings.
		if err := i.aptInstall(ctx, "postgresql-common"); err != nil {
			return err
		}
		undoCluster, err := i.forbidCluster()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, undoCluster()) }()
	}
	if err := i.aptInstall(ctx, packages...); err != nil || !redis {
		return err
	}
	// Postgres has no cluster to start, but Redis would take the default port at the next boot.
	return i.command(ctx, "update-rc.d", "redis-server", "disable")
}

// aptInstall installs packages; if that fails, once more after an update of the package lists, which in a fresh
// container are missing, or are too old.
func (i installer) aptInstall(ctx context.Context, packages ...string) error {
	lock := []string{"-o", "DPkg::Lock::Timeout=300"} // seconds
	args := append(append(lock, "install", "-y", "-q", "--no-install-recommends"), packages...)
	if i.command(ctx, "apt-get", args...) == nil {
		return nil
	}
	if err := i.command(ctx, "apt-get", append(lock, "update", "-q")...); err != nil {
		return err
	}
	return i.command(ctx, "apt-get", args...)
}

// policy is what Debian's packages ask before they start a service; 101 means that it is forbidden. The comment tells
// our own file, left by an installation that was killed, from the administrator's.
const policy = "#!/bin/sh\n# Temporary, by commma: packages being installed do not start their services.\nexit 101\n"

// forbidServices keeps packages from starting services until the returned function is called. A policy that the
// administrator made is left as it is: it decides.
func (i installer) forbidServices() (func() error, error) {
	path := filepath.Join(i.root, "usr/sbin/policy-rc.d")
	text, err := os.ReadFile(path)
	if err == nil && string(text) != policy {
		return func() error { return nil }, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read service policy: %w", err)
	}
	if err := os.WriteFile(path, []byte(policy), 0o755); err != nil {
		return nil, fmt.Errorf("write service policy: %w", err)
	}
	return func() error { return os.Remove(path) }, nil
}

// clusterLine is the setting that keeps Debian's Postgres package from making, and later starting, a cluster. It is the
// last line of its file while it is there, also when it was left by an installation that was killed.
const clusterLine = "create_main_cluster = off # temporary, by commma\n"

// forbidCluster adds clusterLine until the returned function is called.
func (i installer) forbidCluster() (func() error, error) {
	path := filepath.Join(i.root, "etc/postgresql-common/createcluster.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read cluster settings: %w", err)
	}
	original := strings.TrimSuffix(string(text), clusterLine)
	if err := os.WriteFile(path, []byte(original+clusterLine), 0o644); err != nil {
		return nil, fmt.Errorf("write cluster settings: %w", err)
	}
	return func() error { return os.WriteFile(path, []byte(original), 0o644) }, nil
}

// runCommand runs one command. Its output matters only when it fails.
func runCommand(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	// Interrupted, not killed: dpkg finishes the step it is in.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return fmt.Errorf("%s %s: %w:\n%s", name, strings.Join(args, " "), err, strings.Join(lines[max(0, len(lines)-tailLines):], "\n"))
	}
	return nil
}
