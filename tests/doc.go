// Package tests holds the tests that see Commma from outside: they build commma-api, run it as processes over real
// servers, kill some of them, and compare what stands in the end with what must stand.
package tests
