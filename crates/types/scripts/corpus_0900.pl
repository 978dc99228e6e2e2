#!/usr/bin/env perl
# Writes tests/data/collate_0900_languages.tsv: random words compared as Perl's Unicode::Collate does, which has the
# tailorings of the Unicode Common Locale Data Repository.
#
#     perl scripts/corpus_0900.pl > tests/data/collate_0900_languages.tsv
use strict;
use warnings;
use Unicode::Collate::Locale;

srand(20);
my %locales = (
    de_pb => 'de__phonebook', is => 'is', lv => 'lv', ro => 'ro', sl => 'sl', pl => 'pl', et => 'et', es => 'es', sv => 'sv',
    tr => 'tr', cs => 'cs', da => 'da', lt => 'lt', sk => 'sk', es_trad => 'es__traditional', eo => 'eo', hu => 'hu', hr => 'hr',
    vi => 'vi', nb => 'nb', nn => 'nn', sr_latn => 'hr', bs => 'hr', gl => 'es',
);
# Letters of the languages, digraphs, accents and combining marks.
my @letters = (
    'a' .. 'z', 'A' .. 'Z', map({ chr } 0xC0 .. 0xD6, 0xD8 .. 0xF6, 0xF8 .. 0x17F, 0x1A0, 0x1A1, 0x1AF, 0x1B0, 0x218 .. 0x21B),
    map({ chr } 0x300 .. 0x304, 0x306, 0x308 .. 0x30C, 0x323, 0x327, 0x328), qw(ch ll cs dz dzs gy ly ny sz ty zs lj nj aa CH Cs ccs ddz),
);

sub word { join '', map { $letters[rand @letters] } 1 .. 1 + rand 4 }

# Another text that often differs on a lower level only.
sub variant {
    my $word = shift;
    my $which = int rand 5;
    return uc $word if $which == 0;
    return ucfirst $word if $which == 1;
    return $word . chr(0x301) if $which == 2;
    return $word . word() if $which == 3;
    return word();
}

sub hex_of { my $text = shift; utf8::encode($text); unpack 'H*', $text }

print "# collation, a, b, strcmp\n";
sub rows {
    my ($name, $collator, $count) = @_;
    for (1 .. $count) {
        my $a = word();
        my $b = variant($a);
        print join("\t", $name, hex_of($a), hex_of($b), $collator->cmp($a, $b)), "\n";
    }
}
my %how = (variable => 'non-ignorable', normalization => undef);
rows('utf8mb4_0900_ai_ci', Unicode::Collate->new(%how, level => 1), 100);
rows('utf8mb4_0900_as_ci', Unicode::Collate->new(%how, level => 2), 200);
rows('utf8mb4_0900_as_cs', Unicode::Collate->new(%how, level => 3), 200);
for my $language (sort keys %locales) {
    my @locale = (%how, locale => $locales{$language});
    rows("utf8mb4_${language}_0900_ai_ci", Unicode::Collate::Locale->new(@locale, level => 1), 100);
    next if $language eq 'da';
    rows("utf8mb4_${language}_0900_as_cs", Unicode::Collate::Locale->new(@locale, level => 3), 100);
}
