# What a fake server runs when it starts: an account with sudo, Docker where it is wanted, sshd.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
id ops >/dev/null 2>&1 || { useradd -m -s /bin/bash ops; echo 'ops ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/ops; }
mkdir -p /home/ops/.ssh; cp /lab/key.pub /home/ops/.ssh/authorized_keys; chown -R ops /home/ops/.ssh; chmod 700 /home/ops/.ssh
# an account without a key, whose sudo asks
test ! -e /lab/password || id typed >/dev/null 2>&1 || { useradd -m -s /bin/bash typed; echo "typed:$(cat /lab/password)" | chpasswd; echo 'typed ALL=(ALL) ALL' > /etc/sudoers.d/typed; }
ssh-keygen -A >/dev/null 2>&1
cat /proc/sys/kernel/random/uuid > /run/boot_id
mkdir -p /etc/docker
test -e /etc/docker/daemon.json || echo '{"runtimes": {"wrap": {"path": "/lab/runc-wrap"}}, "default-runtime": "wrap"}' > /etc/docker/daemon.json
test -e /lab/no-docker || setsid dockerd --bridge=none --iptables=false --ip-forward=false --ip-masq=false > /var/log/dockerd.log 2>&1 < /dev/null &
exec /usr/sbin/sshd -D -e -o MaxStartups=100:30:200 -o UseDNS=no
