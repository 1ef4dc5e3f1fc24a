# Text, hashes, sorting, closures, formats, numbers, files.
use strict;
use warnings;

my %count;
my $text = "the quick brown fox jumps over the lazy dog " x 50;
$count{$_}++ for split ' ', $text;
printf "%-6s %d\n", $_, $count{$_} for sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;

(my $swapped = $text) =~ s/(\w+) (\w+)/$2 $1/g;
print substr($swapped, 0, 40), "\n";
print join(',', map { sprintf '%.10g', sqrt $_ } grep { $_ % 3 } 1 .. 20), "\n";

my @adders = map { my $n = $_; sub { return $_[0] + $n } } 1 .. 5;
print join(' ', map { $_->(10) } @adders), "\n";
print "pi is about ", 4 * atan2(1, 1), ", e is about ", exp(1), ", 2**0.5 is ", 2**0.5, "\n";
print 10 / 3, ' ', int(-7 / 2), ' ', 7 % -3, ' ', 1e15 + 0.3, ' ', 0x1f, ' ', "3 apples" * 2, "\n" if !eval 'no warnings; die "stop\n"; 1';
print "died: $@";

my $sum = 0;
$sum += 1 / $_ for 1 .. 50000;
printf "%.15g\n", $sum;
my @sorted = sort { $a <=> $b } map { ($_ * 7919) % 10007 } 1 .. 5000;
print "@sorted[0, 1, 2, -1]\n";

open my $out, '>', 'written.txt' or die "cannot write: $!";
print {$out} "$_\n" for 1 .. 1000;
close $out;
open my $in, '<', 'written.txt' or die "cannot read: $!";
my $total = 0;
while (<$in>) { chomp; $total += $_ }
print "$total\n";
print `echo from a child`;
print sprintf('%vd', '1.22.333'), ' ', reverse('abc') . '', ' ', ucfirst lc 'HELLO', ' ', join('|', unpack 'A2 n C', pack 'A2 n C', 'xy', 513, 7), "\n";
local $SIG{ALRM} = sub { print "alarm\n" };
alarm 1;
select undef, undef, undef, 3;
local $SIG{__DIE__} = sub { print "last words: $_[0]" };
die "the end\n";
