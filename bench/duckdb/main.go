// Command duckdb runs one SQL statement in DuckDB, in a process of its own so that its time and
// memory can be measured, and so that the program that measures stays small.
package main

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"runtime"

	_ "github.com/duckdb/duckdb-go/v2"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "duckdb:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.Bool("version", false, "print DuckDB's version")
	threads := flag.Int("threads", runtime.NumCPU(), "threads that DuckDB uses")
	flag.Parse()
	db, err := sql.Open("duckdb", fmt.Sprintf("?threads=%d", *threads))
	if err != nil {
		return err
	}
	defer db.Close()
	if *version {
		var v string
		if err := db.QueryRow("SELECT version()").Scan(&v); err != nil {
			return err
		}
		fmt.Println("DuckDB", v)
		return nil
	}
	if flag.NArg() != 1 {
		return fmt.Errorf("one SQL statement is needed")
	}
	_, err = db.Exec(flag.Arg(0))
	return err
}
