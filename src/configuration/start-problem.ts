/**
 * Why a program cannot start, in one line for the person who started it: what is wrong, and what to do.
 * Printed without a stack; the program exits with code 1.
 */
export class StartProblem extends Error {
  override name = "StartProblem";
}
