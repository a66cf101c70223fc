/* Hides changes of the network from a program: it cannot open a netlink socket.

   The tests with real pods add and remove network interfaces of this machine. Chromium then ends the connections that
   it is opening, with ERR_NETWORK_CHANGED. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol)
{
    int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");

    if (domain == AF_NETLINK) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return real(domain, type, protocol);
}
