// Package bench holds the benchmarks behind docs/benchmarks.md. Each measures something beside a reference, in turn, on the
// same servers in the same run, and reports the ratio: that is what can be compared between machines.
//
// COMMMA_BENCH_SCALE is the share of the documented size at which they run; without it they are small enough to be run
// along with all others.
package bench
