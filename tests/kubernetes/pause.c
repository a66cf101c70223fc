/* Holds the namespaces of a pod and reaps its orphans, as the pause container of Kubernetes does. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int signal) { while (waitpid(-1, NULL, WNOHANG) > 0) {} }
static void end(int signal) { _exit(0); }

int main(void) {
  signal(SIGCHLD, reap);
  signal(SIGINT, end);
  signal(SIGTERM, end);
  for (;;) pause();
}
