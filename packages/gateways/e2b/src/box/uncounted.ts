/**
 * An expression of Python that takes the run that it is part of out of the kernel's count, because the client knows
 * nothing of this run. `sys` is the module. Kernels of JavaScript have their count where no code reaches it.
 */
export const UNCOUNTED_IN_PYTHON =
  '(lambda shell: shell and setattr(shell, "execution_count", shell.execution_count - 1))' +
  '(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)())';
