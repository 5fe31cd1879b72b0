/**
 * Passwords of at least eight characters that people choose most, as lists of leaked ones show: the first that somebody
 * tries who guesses (NIST SP 800-63B, 3.1.1.2 asks for such a list). In lower case.
 */
const COMMON = new Set(
  `12345678 123456789 1234567890 12345678910 87654321 987654321 123123123 11223344 112233445566 12341234 123454321
   1q2w3e4r 1q2w3e4r5t 1qaz2wsx 1qazxsw2 zaq12wsx qazwsxedc q1w2e3r4 a1b2c3d4 abcd1234 abc12345 abc123456 a1234567
   a12345678 aa123456 asdf1234 asdfasdf asdfghjk asdfghjkl qwerty12 qwerty123 qwerty1234 qwertyui qwertyuiop qwer1234
   zxcvbnm1 zxcvbnm123 password password1 password12 password123 password1234 password! password1! passw0rd passw0rd1
   p@ssword p@ssword1 p@ssw0rd p@ssw0rd1 pa55word pass1234 pass12345 passwort passwort1 motdepasse contrasena
   changeme changeme1 changeme123 letmein1 letmein123 welcome1 welcome12 welcome123 admin123 admin1234 admin12345
   administrator adminadmin root1234 rootroot test1234 testtest guest123 user1234 default1 temp1234 secret123
   iloveyou iloveyou1 iloveyou2 sunshine sunshine1 princess princess1 football football1 baseball basketball superman
   superman1 batman123 spiderman starwars pokemon1 pokemon123 trustno1 whatever computer internet samsung1 google123
   facebook facebook1 liverpool chelsea1 arsenal1 jennifer michelle michael1 jordan23 charlie1 daniel123 anthony1
   butterfly chocolate blink182 lovely123 babygirl babygirl1 mustang1 corvette mercedes ferrari1 shadow123 dragon123
   monkey123 master123 hello123 hello1234 helloworld freedom1 carillon carillon1 carillon123`.split(
    /\s+/,
  ),
);

/** Whether somebody who guesses soon comes to this password: a common one, or one or two characters over and over. */
export function isCommonPassword(password: string): boolean {
  // In the form that is hashed.
  const hashed = password.normalize("NFKC");
  return COMMON.has(hashed.toLowerCase()) || new Set(hashed).size <= 2;
}
