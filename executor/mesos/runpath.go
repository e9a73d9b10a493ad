package mesos

// A program that holds this package looks for libraries in the folder lib beside it first, and so do the
// libraries that it finds there: an RPATH, and no RUNPATH, which would not hold for them.

// #cgo linux LDFLAGS: -Wl,--disable-new-dtags -Wl,-rpath,$ORIGIN/lib
import "C"
