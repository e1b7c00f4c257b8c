// Package localstack runs a private Postgres and a private Redis as child processes, for `commma-api dev` and for tests.
//
// # Guarantees
//
//   - The servers are ours alone: never the default ports, 127.0.0.1 only, no unix sockets, a password each.
//   - A data directory has one owner at a time. Stack holds a lock on it; a second start is refused (ErrInUse).
//   - The servers never outlive the program that started them: on Linux the kernel stops them when it dies, and
//     whatever is left over (any kill -9, other systems) is found and stopped by the next start on the same directory.
//   - Postgres never runs as root, and neither does Redis: see identity.
//   - The permissions of directories that are not ours are never touched. As root on Linux the servers reach their data
//     through an inherited descriptor (see home.dataArg), so the data may lie below a directory that only root can enter.
//
// # A data directory
//
//	.commma/
//	  .gitignore    *
//	  lock          flock'd while a Stack runs
//	  env           the two URLs, to be sourced by a shell; exists only while a Stack runs (or died without warning)
//	  postgres/     state.json (port, password), server.log, data/
//	  redis/        likewise
//
// # How left-over processes are recognised
//
// Every process of a server carries the tag of its directory (device and inode number) in its command line: Postgres
// through cluster_name, which it also puts into the titles of its children, Redis through proc-title-template. The
// command line of any process can be read by everybody, also where reading another user's /proc/PID/cwd is denied to
// root (containers without SYS_PTRACE), and a process id that was reused does not carry the tag.
//
// # Process model
//
// Each server is started, and waited for, by one goroutine that owns its operating system thread for as long as the
// server lives: Linux delivers the parent death signal when the THREAD that forked ends, not the process.
//
// The package works on Unix systems only.
package localstack
