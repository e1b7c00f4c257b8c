// Package tests holds the tests that see Commma from outside: they build commma-api, run it as processes over real
// servers, kill some of them, and compare what stands in the end with what must stand. What is called TestTrials is a suite:
// it runs a sample here and whole in `make trials`; docs/reliability.md has what they found.
//
// What the tests stand on:
//
//	suite_test.go      a suite, its tally, and the table that is printed
//	process_test.go    commma-api as a process, and requests to it; helpers_test.go: the rest
//	scene_test.go      users, sessions and boards, set up without commands
//	standing_test.go   the comparison at the end
//	proxy_test.go      a proxy that kills or stops a process at its k-th round trip; slowproxy_test.go: one that delays;
//	                   gate_test.go: one that refuses or swallows
//	node_test.go       the API within the test, wired as serve is, with statements changed on their way
//	leakscan_test.go, logsearch_test.go   the search of tables, Redis and logs for what must not be there
//	model/             the rules of time as a plain model
//	bench/             what docs/benchmarks.md measures
//
// What they show:
//
//	concurrency, flood, isolation    nobody doubles, holds up or touches another
//	crash, crashpoints, fence        processes killed and stopped at every round trip
//	servercrash, clients             servers that die, hang and are cut off under the running service
//	paging                           boards walked by cursor while scores change
//	model                            random sequences against the model
//	deleterace, erase                deletes amid everything, and what they leave
//	reads                            boards, heatmaps, profiles and sessions, as they are read, against one another
//	race, modecache, modecrash,      privacy modes: changes amid everything, the cached mode, kills, starvation, long
//	starve, leave, secret            histories, and a secret sent wherever it can be
//	recap                            recaps for jobs, and mails of jobs that are killed or run twice
//	views, writebehind, counters     counters that are written behind
package tests
