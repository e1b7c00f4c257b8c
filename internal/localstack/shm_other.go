//go:build unix && !linux

package localstack

func removeSharedMemory(string) {}
